//! The tables, and what has to be said with them.

use super::figures::{Row, World};
use super::session::Variant;

/// What each figure means. Figures of several worlds stand in the order of the worlds.
const MEANING: &str = "\
A body that does nothing gives the microseconds per call and per chunk, beyond a hand-written loop in the same language; a cache
has settled before. Whole runs multiply rows with weights on libtorch, and what does not fit ends in libtorch's own error, half
through the attempt. Times are over those of the best fixed size in the same language, \"kept\" is the size in force at the end
over the limit.";

/// What the peers do otherwise, which figures alone do not tell.
const NOTES: &str = "\
- toma for Python collects garbage before each call and after each chunk and failure; that is nearly all of its overhead, and
  grows with the number of objects in the program. Its `StacktraceMemoryBatchsizeCache` counts free memory in steps of 256 MiB:
  when others take or free so much, a call starts at its initial size again.
- accelerate has no ranges, no chunks and no cache to choose. After each failure it collects garbage and runs the whole
  function again; it remembers a size as long as the decorated function lives, wherever that is called from.
- `batch` of either toma runs the whole function again, too.
- \"toma, bytes counted\" knows the bytes that libtorch allocates, by `toma::torch::cpu::count`, as it does on a GPU without being
  asked. Neither peer can make use of that.
- `Throughput` keeps the smallest size that is about as fast as any, on purpose.";

const PLOT: &str = "Overhead, failures, kept sizes and times";

/// What a column is called, and what stands in it.
type Column = (&'static str, fn(&Row) -> String);

const MAIN: &[Column] = &[
    ("call, µs", |row| micros(row.call_us)),
    ("chunk, µs", |row| micros(row.chunk_us)),
    ("OOMs, cold", |row| each(row, "cold_ooms", 0)),
    ("kept, %", |row| each(row, "cold_kept_percent", 0)),
    ("cold", |row| each(row, "cold_ratio", 2)),
    ("warm", |row| each(row, "warm_ratio", 2)),
];

/// Of these, what a reader of the README compares.
const SHORT: &[Column] = &[
    ("call, µs", |row| micros(row.call_us)),
    ("OOMs, cold", |row| each(row, "cold_ooms", 0)),
    ("cold", |row| each(row, "cold_ratio", 2)),
    ("warm", |row| each(row, "warm_ratio", 2)),
];

const TIMES: &[Column] = &[
    ("cold, ms", |row| each(row, "cold_ms", 0)),
    ("warm, ms", |row| each(row, "warm_ms", 0)),
    ("OOMs, warm", |row| each(row, "warm_ooms", 0)),
];

/// What the README shows.
pub(super) fn short(rows: &[&Row], worlds: &[World], machine: &str) -> String {
    let (table, worlds) = (table(rows.iter().copied(), SHORT), worlds.len());
    format!(
        "{table}\nA call costs microseconds beyond a hand-written loop in the same language. Whole runs are of {worlds} worlds, and \
         figures stand\nin their order. Times are over those of the best fixed size; a warm run follows a cold one.\n{machine}\n\n\
         The worlds, all forms and caches, and what the peers do otherwise: [benches/RESULTS.md](benches/RESULTS.md#peers).\n"
    )
}

/// What the record of figures shows.
pub(super) fn whole(rows: &[Row], worlds: &[World], machine: &str) -> String {
    let (told, main) = (told(worlds), main_table(rows.iter()));
    let times = table(rows.iter().filter(|row| !row.runs.is_empty()), TIMES);
    format!(
        "`cargo xtask bench-peers`: {machine}\n\n![{PLOT}](peers.svg)\n\n{MEANING} {told}\n{main}\n\
         Milliseconds, and failures of the warm run:\n\n{times}\n{NOTES}\n"
    )
}

/// The figures that matter.
pub(super) fn main_table<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    table(rows, MAIN)
}

/// The first columns name the row.
fn table<'a>(rows: impl Iterator<Item = &'a Row>, columns: &[Column]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let titles = ["", "form", "cache", "policy"].into_iter().chain(columns.iter().map(|(title, _)| *title));
    let titles: Vec<_> = titles.map(str::to_owned).collect();
    let ruler = "|---".repeat(titles.len()) + "|\n";
    let cells = |row| names(row).into_iter().chain(columns.iter().map(|(_, cell)| cell(row))).collect();
    rows.fold(line(titles) + &ruler, |table, row| table + &line(cells(row)))
}

/// The figure of every world.
fn each(row: &Row, figure: &str, decimals: usize) -> String {
    row.each(figure).iter().map(|figure| format!("{figure:.decimals$}")).collect::<Vec<_>>().join(" / ")
}

fn names(row: &Row) -> [String; 4] {
    let code = |word: &str| if word.is_empty() { String::new() } else { format!("`{word}`") };
    let Variant { form, cache, policy } = &row.variant;
    // Policies of other libraries have no names.
    let policy = if row.is_ours() { code(policy) } else { policy.clone() };
    [format!("{} ({})", row.peer, row.language), code(form), code(cache), policy]
}

/// Three digits that count, as far as there is a figure.
fn micros(figure: Option<f64>) -> String {
    let Some(figure) = figure else { return String::new() };
    let decimals = match figure.abs() {
        large if large >= 100.0 => 0,
        medium if medium >= 1.0 => 1,
        _ => 3,
    };
    grouped(&format!("{figure:.decimals$}"))
}

/// With a comma between thousands.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let first = whole.len() - 3.min(whole.len());
    match whole.split_at(first) {
        ("" | "-", _) => number.to_owned(),
        (more, last) => format!("{},{last}{rest}", grouped(more)),
    }
}

/// The end of a sentence, and the worlds as a list.
fn told(worlds: &[World]) -> String {
    let worlds: Vec<_> = worlds.iter().map(World::told).collect();
    format!("The worlds, in this order:\n\n- {}\n", worlds.join("\n- "))
}

impl World {
    pub(super) fn told(&self) -> String {
        let Self { rows, initial, limit, halves, .. } = self;
        let [rows, initial] = [rows, initial].map(|number| grouped(&number.to_string()));
        let halves = if *halves { format!(", {} after half of them", limit / 2) } else { String::new() };
        format!("{rows} rows, {initial} tried first, {limit} fit{halves}")
    }
}
