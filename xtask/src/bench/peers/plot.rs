//! The plot: a line per way to run a loop, a panel per kind of figure, a mark per world.

use std::fmt::Write as _;

use super::figures::{Row, Run, World};
use super::session::Variant;

/// Where things stand, in pixels.
const WIDTH: f64 = 1100.0;
const NAMES: f64 = 350.0;
const TOP: f64 = 64.0;
const LINE: f64 = 22.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 36.0;

/// A mark per world, light to dark.
const SHADES: [f64; 3] = [0.35, 0.65, 1.0];

/// A kind of figure, and the range of its axis.
struct Panel {
    title: &'static str,
    scale: Scale,
    figures: fn(&Row) -> Vec<f64>,
    ticks: Vec<(f64, String)>,
}

#[derive(Clone, Copy)]
enum Scale {
    Linear(f64, f64),
    Logarithmic(f64, f64),
}

impl Scale {
    /// Where a figure stands, from 0 at the left to 1 at the right; beyond an end, at that end.
    fn place(self, figure: f64) -> f64 {
        let (from, to, figure) = match self {
            Self::Linear(from, to) => (from, to, figure),
            Self::Logarithmic(from, to) => (from.ln(), to.ln(), figure.max(f64::MIN_POSITIVE).ln()),
        };
        ((figure - from) / (to - from)).clamp(0.0, 1.0)
    }
}

/// How words look, by class; a white ground, because a page may be dark.
const STYLE: &str = "<style>text { font: 11px 'DejaVu Sans', Verdana, sans-serif; fill: #222 } \
    .title { font-size: 15px; font-weight: bold } .head { font-weight: bold } \
    .tick { font-size: 10px; fill: #555; text-anchor: middle } .note { font-size: 10px; fill: #555 }</style>\n\
    <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";

pub(super) fn svg(rows: &[&Row], worlds: &[World]) -> String {
    let bottom = TOP + LINE * count(rows.len());
    let height = bottom + 46.0 + 18.0 * count(worlds.len());
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n{STYLE}"
    );
    text += &say(12.0, 24.0, "title", "Loops that run out of memory, by who adapts their size");
    for (at, row) in rows.iter().enumerate() {
        text += &name(row, at);
    }
    for (at, panel) in panels(rows).iter().enumerate() {
        text += &draw(panel, rows, NAMES + (PANEL + GAP) * count(at));
    }
    text + &legend(worlds, bottom + 46.0) + "</svg>\n"
}

fn panels(rows: &[&Row]) -> [Panel; 4] {
    let most =
        |figure: fn(&Run) -> f64| rows.iter().flat_map(|row| &row.runs).map(figure).fold(2.0, f64::max);
    let (ooms, slowest) = (most(|run| run.cold.ooms), most(|run| run.cold.ratio) * 1.1);
    [
        Panel {
            title: "overhead per chunk *",
            scale: Scale::Logarithmic(1e-3, 1e6),
            figures: |row| row.chunk_us.or(row.call_us).into_iter().collect(),
            ticks: [(1e-3, "1 ns"), (1.0, "1 µs"), (1e3, "1 ms"), (1e6, "1 s")].map(owned).into(),
        },
        Panel {
            title: "out of memory, cold run",
            scale: Scale::Linear(0.0, ooms),
            figures: |row| row.runs.iter().map(|run| run.cold.ooms).collect(),
            ticks: [0.0, (ooms / 2.0).floor(), ooms].map(|at| (at, format!("{at:.0}"))).into(),
        },
        Panel {
            title: "size kept, % of limit",
            scale: Scale::Linear(0.0, 100.0),
            figures: |row| row.runs.iter().map(|run| run.cold.kept_percent).collect(),
            ticks: [(0.0, "0"), (50.0, "50"), (100.0, "100")].map(owned).into(),
        },
        Panel {
            title: "time of the cold run **",
            scale: Scale::Logarithmic(0.9, slowest),
            figures: |row| row.runs.iter().map(|run| run.cold.ratio).collect(),
            ticks: times(slowest),
        },
    ]
}

fn owned((at, label): (f64, &str)) -> (f64, String) {
    (at, label.to_owned())
}

/// As many as can be read beside each other.
fn times(end: f64) -> Vec<(f64, String)> {
    let all: &[f64] = if end > 20.0 { &[1.0, 10.0, 100.0, 1000.0] } else { &[1.0, 2.0, 5.0, 10.0, 20.0] };
    all.iter().filter(|at| **at <= end).map(|at| (*at, format!("{at}×"))).collect()
}

fn draw(panel: &Panel, rows: &[&Row], left: f64) -> String {
    let x = |figure: f64| left + PANEL * panel.scale.place(figure);
    let bottom = TOP + LINE * count(rows.len());
    let mut text = say(left, TOP - 12.0, "head", panel.title);
    for (at, label) in &panel.ticks {
        let x = x(*at);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>");
        text += &say(x, bottom + 15.0, "tick", label);
    }
    for (at, row) in rows.iter().enumerate() {
        let figures = (panel.figures)(row);
        let shades = SHADES.iter().skip(SHADES.len().saturating_sub(figures.len()));
        for (mark, (figure, shade)) in figures.iter().zip(shades).enumerate() {
            // A little apart, so that equal figures hide no mark.
            let apart = 5.0 * (count(mark) - (count(figures.len()) - 1.0) / 2.0);
            text += &circle((x(*figure), middle(at) + apart), color(row), *shade);
        }
    }
    text
}

fn circle((x, y): (f64, f64), color: &str, shade: f64) -> String {
    format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\" fill=\"{color}\" fill-opacity=\"{shade}\"/>\n")
}

/// A line's ground, and whose it is.
fn name(row: &Row, at: usize) -> String {
    let words = [format!("{} ({})", row.peer, row.language), variant(row)];
    let words = words.iter().filter(|words| !words.is_empty()).map(String::as_str).collect::<Vec<_>>();
    let (top, ground) = (middle(at) - LINE / 2.0, if at.is_multiple_of(2) { "#f6f6f6" } else { "#fff" });
    let bars = [(0.0, WIDTH, ground), (6.0, 3.0, color(row))].map(|(x, width, color)| {
        format!("<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{LINE}\" fill=\"{color}\"/>\n")
    });
    bars.concat() + &say(14.0, middle(at) + 4.0, "name", &words.join(": "))
}

/// What tells rows of one peer apart.
fn variant(row: &Row) -> String {
    let Variant { cache, policy, .. } = &row.variant;
    if row.is_ours() { format!("{cache}, {policy}") } else { cache.clone() }
}

fn legend(worlds: &[World], top: f64) -> String {
    let notes = [
        "* beyond a loop by hand, of that loop in all; accelerate: per call",
        "** over that of the best fixed size in the same language",
    ];
    let line = |at: usize| top + 18.0 * count(at);
    let notes = notes.iter().enumerate().map(|(at, note)| say(14.0, line(at), "note", note));
    let worlds = worlds.iter().zip(SHADES).enumerate().map(|(at, (world, shade))| {
        circle((NAMES, line(at) - 4.0), "#000", shade) + &say(NAMES + 10.0, line(at), "world", &world.told())
    });
    notes.chain(worlds).collect()
}

/// A color for each peer.
fn color(row: &Row) -> &'static str {
    match &*row.peer {
        _ if row.is_loop() => "#666",
        _ if row.is_ours() => "#1763b6",
        peer if peer.starts_with("toma") => "#8a2d6b",
        _ => "#b3541e",
    }
}

fn say(x: f64, y: f64, class: &str, words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{words}</text>\n")
}

/// The middle of a line.
fn middle(at: usize) -> f64 {
    TOP + LINE * (count(at) + 0.5)
}

#[expect(clippy::cast_precision_loss, reason = "there are few lines and few worlds")]
fn count(things: usize) -> f64 {
    things as f64
}
