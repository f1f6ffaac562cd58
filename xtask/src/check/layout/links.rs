//! Links from one file of the repository to another.

use std::path::{Path, PathBuf};

use crate::check::layout::files::TextFile;

/// Links in a Markdown file to what is not there, or not in the repository: it is nowhere else.
pub(super) fn broken(file: &TextFile, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let broken = targets(&file.text).into_iter().filter_map(|(line, target)| {
        let path = resolve(&file.path, target)?;
        (!exists(&path)).then(|| format!(":{line}: link to `{target}`, which is not there"))
    });
    broken.collect()
}

/// What a Markdown text links to, with the line of each link; code is passed over.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut fence) = (Vec::new(), None);
    for (line, number) in text.lines().zip(1..) {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(close)) if open == close => fence = None,
            (Some(_), _) => {}
            (None, None) => found.extend(targets_of_line(line).map(|target| (number, target))),
        }
    }
    found
}

fn targets_of_line(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.match_indices("](").filter(|(at, _)| is_prose(&line[..*at]));
    let inline = inline.filter_map(|(at, mark)| line[at + mark.len()..].split(')').next());
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]:")).map(|(_, target)| target);
    // A title may follow the target.
    inline.chain(definition).filter_map(|target| target.split_whitespace().next())
}

/// Whether what follows `before` is outside of backticks.
fn is_prose(before: &str) -> bool {
    before.matches('`').count().is_multiple_of(2)
}

/// The path, from the root of the repository, that a link in the file `from` means; nothing for
/// links to the web, to a heading of the same file, or to an item of Rust.
fn resolve(from: &str, target: &str) -> Option<PathBuf> {
    let path = target.trim_matches(['<', '>']).split('#').next().filter(|path| !path.is_empty())?;
    if path.contains("::") || path.split('/').next()?.contains(':') {
        return None;
    }
    let folder = Path::new(from).parent()?;
    Some(path.strip_prefix('/').map_or_else(|| folder.join(path), PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    fn broken_in(path: &str, text: &str) -> Vec<String> {
        let scratch = Scratch::new("links");
        for path in ["README.md", "docs/a.md", "src/lib.rs"] {
            scratch.file(path, "");
        }
        let root = scratch.root().canonicalize().unwrap();
        let exists = |path: &Path| root.join(path).canonicalize().is_ok_and(|path| path.starts_with(&root));
        broken(&TextFile { path: path.into(), text: text.into() }, &exists)
    }

    #[test]
    fn links_to_files_must_lead_somewhere() {
        let good =
            "[a](docs/a.md#x) ![`b`](./README.md \"title\") [c](src/) [d](/README.md)\n[e]: docs/a.md\n";
        assert_eq!(broken_in("README.md", good), [""; 0]);
        let bad = "[a](doc/a.md) and [b](docs/b.md#x)\n\n[c]: <nowhere.md>\n[d](../README.md)\n";
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
    fn the_web_headings_items_and_code_are_passed_over() {
        let text = "[a](https://x.org/y.md) [b](#z) [c](mailto:x@y) [d](crate::Item) `[e](f.md)`\n\
                    ```\n[g](h.md)\n~~~\n```\n~~~ text\n[i](j.md)\n~~~\n";
        assert_eq!(broken_in("README.md", text), [""; 0]);
        assert_eq!(broken_in("README.md", &format!("{text}[k](l.md)")).len(), 1);
    }
}
