//! The glossary in `CONTRIBUTING.md`: one word for one thing, in the names of code too.

use std::collections::BTreeMap;

use super::files::TextFile;
use super::text::own_lines;

const PLACE: &str = "CONTRIBUTING.md";
const MOST_TERMS: usize = 30;

/// Words that begin an item with a name.
const ITEMS: &[&str] = &["struct", "enum", "trait", "union", "type", "fn", "mod", "const", "static"];
const TYPES: &[&str] = &["struct", "enum", "trait", "union"];

/// A row of the glossary.
#[derive(Debug)]
struct Term<'a> {
    name: &'a str,
    /// What no name in code says instead.
    instead: Vec<&'a str>,
}

/// An item in the sources of a crate.
#[derive(Debug)]
struct Item<'a> {
    kind: &'a str,
    name: &'a str,
    is_public: bool,
    place: String,
}

/// What the glossary and the names in code say differently.
pub(super) fn differences(files: &[TextFile]) -> Vec<String> {
    let Some(contributing) = files.iter().find(|file| file.path == PLACE) else { return Vec::new() };
    let terms = terms(&contributing.text);
    let mut found = of_two_meanings(&terms);
    if terms.is_empty() || terms.len() > MOST_TERMS {
        found.push(format!("{PLACE}: {} terms in the glossary, 1 to {MOST_TERMS}", terms.len()));
    }
    let sources = files.iter().filter(|file| is_product(file));
    let items: Vec<_> = sources.flat_map(items).collect();
    found.extend(items.iter().filter_map(|item| instead_of_a_term(item, &terms)));
    found.extend(declared_twice(&items, &terms));
    found
}

fn is_product(file: &TextFile) -> bool {
    let is_ours = file.path.starts_with("toma-") || file.path.starts_with("src/");
    let is_rust = file.path.rsplit_once('.').is_some_and(|(_, kind)| kind == "rs");
    is_ours && is_rust && !file.is_beside_the_product()
}

/// The rows between the heading of the glossary and the next one.
fn terms(text: &str) -> Vec<Term<'_>> {
    let section = text.lines().skip_while(|line| *line != "## Glossary").skip(1);
    let rows = section.take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with('|'));
    rows.skip(2).filter_map(term).collect()
}

fn term(row: &str) -> Option<Term<'_>> {
    let [name, _, instead] = row.trim_matches('|').split(" | ").collect::<Vec<_>>()[..] else { return None };
    let instead = instead.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    Some(Term { name: name.trim(), instead })
}

/// Words that two rows have.
fn of_two_meanings(terms: &[Term<'_>]) -> Vec<String> {
    let mut rows: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for term in terms {
        for word in term.instead.iter().chain([&term.name]) {
            rows.entry(word).or_default().push(term.name);
        }
    }
    let twice = rows.into_iter().filter(|(_, rows)| rows.len() > 1);
    twice.map(|(word, rows)| format!("{PLACE}: `{word}` stands in the rows {}", rows.join(" and "))).collect()
}

fn instead_of_a_term(item: &Item<'_>, terms: &[Term<'_>]) -> Option<String> {
    let name = format!("_{}_", snake(item.name));
    let says = |word: &&str| name.contains(&format!("_{}_", word.replace(' ', "_")));
    let (term, word) =
        terms.iter().find_map(|term| Some((term, term.instead.iter().copied().find(says)?)))?;
    Some(format!("{}: `{}` says `{word}`, and the glossary `{}`", item.place, item.name, term.name))
}

/// Types of one crate that have the name of a term and are not all public: a path tells public ones apart.
fn declared_twice(items: &[Item<'_>], terms: &[Term<'_>]) -> Vec<String> {
    let mut places: BTreeMap<(&str, &str), Vec<&Item<'_>>> = BTreeMap::new();
    for item in items.iter().filter(|item| TYPES.contains(&item.kind)) {
        let is_term = |term: &Term<'_>| term.name.replace(' ', "_") == snake(item.name);
        if terms.iter().any(is_term) {
            let package = item.place.split('/').next().unwrap_or_default();
            places.entry((package, item.name)).or_default().push(item);
        }
    }
    let twice = places.into_values().filter(|items| items.len() > 1 && !items.iter().all(|i| i.is_public));
    twice
        .map(|items| {
            format!("{}: `{}` is declared at {}, too", items[0].place, items[0].name, items[1].place)
        })
        .collect()
}

fn items(file: &TextFile) -> Vec<Item<'_>> {
    let lines = file.text.lines().take(own_lines(&file.text)).zip(1..);
    let found = lines.filter_map(|(line, number)| item(line, format!("{}:{number}", file.path)));
    found.collect()
}

/// The item that begins on this line.
fn item(line: &str, place: String) -> Option<Item<'_>> {
    let mut words = line.split_whitespace().peekable();
    let is_public = words.peek() == Some(&"pub");
    let kind = words.by_ref().find(|word| !is_before_an_item(word))?;
    let name = words.next()?.split(|sign: char| !sign.is_alphanumeric() && sign != '_').next()?;
    // `const fn` is a function.
    let (kind, name) =
        if kind == "const" && name == "fn" { ("fn", first_name(words.next()?)) } else { (kind, name) };
    (ITEMS.contains(&kind) && !name.is_empty()).then_some(Item { kind, name, is_public, place })
}

fn is_before_an_item(word: &str) -> bool {
    word.starts_with("pub")
        || ["async", "unsafe", "extern", "\"C\"", "in"].contains(&word)
        || word.ends_with(')')
}

fn first_name(word: &str) -> &str {
    word.split(|sign: char| !sign.is_alphanumeric() && sign != '_').next().unwrap_or_default()
}

/// `OutOfMemory` as `out_of_memory`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (at, sign) in name.char_indices() {
        let begins_a_word = sign.is_uppercase()
            && at > 0
            && !name[..at].ends_with(|before: char| before == '_' || before.is_uppercase());
        if begins_a_word {
            snake.push('_');
        }
        snake.extend(sign.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "## Glossary\n\n| term | what it is | not |\n|---|---|---|\n| attempt | a run | trial |\n| left out | passed over | skipped |\n\n## More\n";

    fn differ(table: &str, sources: &[(&str, &str)]) -> Vec<String> {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let sources = sources.iter().map(|(path, text)| file(path, text));
        differences(&sources.chain([file(PLACE, table)]).collect::<Vec<_>>())
    }

    #[test]
    fn a_name_says_the_word_of_the_glossary() {
        for (line, name) in [
            ("pub(crate) struct OneTrial {", "OneTrial"),
            ("    async fn trial_of(size: usize) {", "trial_of"),
            ("pub const fn trial() {}", "trial"),
            ("const MOST_SKIPPED: usize = 1;", "MOST_SKIPPED"),
            ("mod trial;", "trial"),
        ] {
            let found = differ(TABLE, &[("toma-core/src/a.rs", line)]);
            assert_eq!(found.len(), 1, "{line}");
            assert!(found[0].starts_with("toma-core/src/a.rs:1: ") && found[0].contains(name), "{found:?}");
        }
        let others = "fn industrial() {}\nstruct Attempt;\n// fn trial() {}\nlet trial = skipped();\n";
        assert_eq!(differ(TABLE, &[("toma-core/src/a.rs", others)]), [""; 0]);
        assert_eq!(differ(TABLE, &[("tests/a.rs", "fn trial() {}")]), [""; 0]);
    }

    #[test]
    fn a_word_of_two_rows_is_found() {
        let table = TABLE.replace("skipped", "trial");
        assert_eq!(differ(&table, &[]), ["CONTRIBUTING.md: `trial` stands in the rows attempt and left out"]);
        let table = TABLE.replace("skipped", "attempt");
        assert_eq!(differ(&table, &[]).len(), 1);
    }

    #[test]
    fn a_type_of_a_term_is_declared_once_in_a_crate() {
        let (one, other) = ("toma-core/src/a.rs", "toma-core/src/b.rs");
        let twice = [(one, "pub struct Attempt;"), (other, "enum Attempt {")];
        let found = differ(TABLE, &twice);
        assert_eq!(found, ["toma-core/src/a.rs:1: `Attempt` is declared at toma-core/src/b.rs:1, too"]);
        assert_eq!(differ(TABLE, &[(one, "pub struct Attempt;"), (other, "pub enum Attempt {")]), [""; 0]);
        assert_eq!(
            differ(TABLE, &[(one, "struct Attempt;"), ("toma-plan/src/b.rs", "enum Attempt {")]),
            [""; 0]
        );
    }

    #[test]
    fn a_glossary_is_there_and_short() {
        assert_eq!(differ("# Contributing\n", &[]).len(), 1);
        let rows: Vec<_> = (0..=MOST_TERMS).map(|row| format!("| term{row} | x | not{row} |")).collect();
        let table = format!("## Glossary\n| t | w | n |\n|---|---|---|\n{}", rows.join("\n"));
        assert_eq!(differ(&table, &[]).len(), 1);
    }
}
