//! Links from one file of the repository to another.

use std::fs;
use std::path::{Path, PathBuf};

use super::files::TextFile;

/// True if the repository has this file or folder, and in it the heading, if one is named.
pub(super) type Leads<'a> = dyn Fn(&Path, Option<&str>) -> bool + 'a;

/// Links in a Markdown file whose targets are missing or outside of the repository.
pub(super) fn broken(file: &TextFile, leads: &Leads<'_>) -> Vec<String> {
    let broken = targets(&file.text).into_iter().filter_map(|(line, target)| {
        let (path, heading) = resolve(&file.path, target)?;
        (!leads(&path, heading)).then(|| format!(":{line}: link to `{target}`, which is not there"))
    });
    broken.collect()
}

/// The link targets of a Markdown text, with the line of each; code is skipped.
fn targets(text: &str) -> Vec<(usize, &str)> {
    prose(text).flat_map(|(number, line)| targets_of_line(line).map(move |target| (number, target))).collect()
}

fn targets_of_line(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.match_indices("](").filter(|(at, _)| is_prose(&line[..*at]));
    let inline = inline.filter_map(|(at, mark)| line[at + mark.len()..].split(')').next());
    let definition = definition(line).map(|(_, target)| target);
    // A title may follow the target.
    inline.chain(definition).filter_map(|target| target.split_whitespace().next())
}

/// The label and the target of a definition.
fn definition(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('[').and_then(|rest| rest.split_once("]:"))
}

/// References of a Markdown file to labels that it does not define. A label that is an item of Rust needs no
/// definition.
pub(super) fn undefined(file: &TextFile) -> Vec<String> {
    let defined: Vec<_> = prose(&file.text).filter_map(|(_, line)| Some(definition(line)?.0)).collect();
    let is_defined = |label: &str| defined.iter().any(|known| known.eq_ignore_ascii_case(label));
    let references =
        prose(&file.text).flat_map(|(number, line)| references(line).map(move |label| (number, label)));
    let undefined = references.filter(|(_, label)| !is_defined(label) && !label.contains("::"));
    undefined.map(|(line, label)| format!(":{line}: no definition of `[{label}]`")).collect()
}

/// The labels of a line, as in `[text][label]` and `[label][]`.
fn references(line: &str) -> impl Iterator<Item = &str> {
    let marks = line.match_indices("][").filter(|(at, _)| is_prose(&line[..*at]));
    marks.filter_map(|(at, mark)| {
        let label = line[at + mark.len()..].split(']').next()?;
        let text = line[..at].rsplit('[').next()?;
        Some(if label.is_empty() { text } else { label })
    })
}

/// The lines of a Markdown text outside of blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut open = None;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        let is_prose = open.is_none() && mark.is_none();
        match open {
            None => open = mark,
            Some(_) if open == mark => open = None,
            Some(_) => {}
        }
        is_prose
    })
}

/// The anchors of the headings of a Markdown text.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let is_heading = |line: &&str| line.starts_with('#') && line.trim_start_matches('#').starts_with(' ');
    prose(text).map(|(_, line)| line).filter(is_heading).map(anchor)
}

fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|sign| sign.is_alphanumeric() || [' ', '-', '_'].contains(sign));
    kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect()
}

/// True if the text after `before` is outside of backticks.
fn is_prose(before: &str) -> bool {
    before.matches('`').count().is_multiple_of(2)
}

/// The path, from the root of the repository, and the heading of a link in the file `from`; `None` for links to the
/// web, or to an item of Rust.
fn resolve<'a>(from: &str, target: &'a str) -> Option<(PathBuf, Option<&'a str>)> {
    let target = target.trim_matches(['<', '>']);
    let (path, heading) =
        target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    if path.is_empty() {
        return heading.map(|_| (PathBuf::from(from), heading));
    }
    if path.contains("::") || path.split('/').next()?.contains(':') {
        return None;
    }
    let folder = Path::new(from).parent()?;
    Some((path.strip_prefix('/').map_or_else(|| folder.join(path), PathBuf::from), heading))
}

/// True if a path leads into the repository at `root`, and to a heading there, if one is named.
pub(super) fn leads(root: &Path, path: &Path, heading: Option<&str>) -> bool {
    let Ok(path) = root.join(path).canonicalize() else { return false };
    let has =
        |heading| fs::read_to_string(&path).is_ok_and(|text| anchors(&text).any(|anchor| anchor == heading));
    path.starts_with(root) && heading.is_none_or(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    fn broken_in(path: &str, text: &str) -> Vec<String> {
        let scratch = Scratch::new("links");
        for path in ["README.md", "docs/a.md", "src/lib.rs"] {
            scratch.file(path, "# A heading\n```\n# code\n```\n");
        }
        let root = scratch.root().canonicalize().unwrap();
        let leads = |path: &Path, heading: Option<&str>| leads(&root, path, heading);
        broken(&TextFile { path: path.into(), text: text.into() }, &leads)
    }

    #[test]
    fn links_to_files_must_lead_somewhere() {
        let good = "[a](docs/a.md#a-heading) ![`b`](./README.md \"title\") [c](src/) [d](/README.md)\n[e]: docs/a.md\n";
        assert_eq!(broken_in("README.md", good), [""; 0]);
        let bad = "[a](doc/a.md) and [b](docs/b.md#a-heading)\n\n[c]: <nowhere.md>\n[d](../README.md)\n";
        let lines: Vec<_> =
            broken_in("README.md", bad).iter().map(|problem| problem[..3].to_owned()).collect();
        assert_eq!(lines, [":1:", ":1:", ":3:", ":4:"]);
    }

    #[test]
    fn links_start_at_the_folder_of_the_file() {
        assert_eq!(broken_in("docs/a.md", "[x](../README.md) [y](a.md)"), [""; 0]);
        assert_eq!(broken_in("docs/a.md", "[x](README.md)").len(), 1);
    }

    #[test]
    fn links_to_headings_must_lead_somewhere() {
        assert_eq!(broken_in("docs/a.md", "[a](#a-heading) [b](../README.md#a-heading)"), [""; 0]);
        for target in ["#code", "#", "../README.md#a", "../README.md#A-heading", "../src/lib.rs#code"] {
            assert_eq!(broken_in("docs/a.md", &format!("[a]({target})")).len(), 1, "{target}");
        }
    }

    #[test]
    fn headings_are_reached_by_their_words() {
        let text = "intro\n\n# A `b`, c?\n```rust\n# hidden\n~~~\n```\n## Two_d-e\n~~~ sh\n```\n~~~\n#no\n";
        assert_eq!(anchors(text).collect::<Vec<_>>(), ["a-b-c", "two_d-e"]);
    }

    #[test]
    fn references_need_a_definition() {
        let of = |text: &str| undefined(&TextFile { path: "README.md".into(), text: text.into() });
        let good =
            "[a b][C] and [c][], [d][crate::d], `[e][f]` [g]\n```rust\nx[0][1]\n```\n\n[c]: docs/a.md\n";
        assert_eq!(of(good), [""; 0]);
        assert_eq!(
            of("See\n[a][b] and [c][].\n\n[a]: x.md\n"),
            [":2: no definition of `[b]`", ":2: no definition of `[c]`"]
        );
    }

    #[test]
    fn the_web_items_and_code_are_passed_over() {
        let text = "[a](https://x.org/y.md#z) [c](mailto:x@y) [d](crate::Item) `[e](f.md)`\n\
                    ```\n[g](h.md)\n~~~\n```\n~~~ text\n[i](j.md)\n~~~\n";
        assert_eq!(broken_in("README.md", text), [""; 0]);
        assert_eq!(broken_in("README.md", &format!("{text}[k](l.md)")).len(), 1);
    }
}
