//! Links from one file of the repository to another.

use crate::check::layout::files::TextFile;

/// Links in a Markdown file to files that are not there.
pub(super) fn broken(file: &TextFile, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (line, target) in targets(&file.text) {
        if resolve(&file.path, &target).is_some_and(|path| !exists(&path)) {
            found.push(format!(":{line}: link to `{target}`, which is not there"));
        }
    }
    found
}

/// What a Markdown text links to, with the line of each link; code is passed over.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence = None;
    for (at, line) in text.lines().enumerate() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(close)) if open == close => fence = None,
            (Some(_), _) => {}
            (None, None) => found.extend(targets_of_line(line).into_iter().map(|target| (at + 1, target))),
        }
    }
    found
}

fn targets_of_line(line: &str) -> Vec<String> {
    // Every other piece between backticks is code.
    let prose: String = line.split('`').step_by(2).collect();
    let inline = prose.split("](").skip(1).filter_map(|after| after.split(')').next());
    let definition = prose.strip_prefix('[').and_then(|rest| rest.split_once("]:")).map(|(_, target)| target);
    // A title may follow the target.
    let first_word = |target: &str| target.split_whitespace().next().map(str::to_owned);
    inline.chain(definition).filter_map(first_word).collect()
}

/// The path, from the root of the repository, that a link in the file `from` means; nothing for
/// links to the web, to a heading of the same file, or to an item of Rust.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.trim_matches(['<', '>']);
    let path = target.split('#').next().filter(|path| !path.is_empty())?;
    if path.contains("::") || path.split('/').next()?.contains(':') {
        return None;
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let joined = path.strip_prefix('/').map_or_else(|| format!("{folder}/{path}"), str::to_owned);
    let mut parts = Vec::new();
    for part in joined.split('/').filter(|part| !part.is_empty() && *part != ".") {
        // A link out of the repository leads nowhere for whoever has only the repository.
        match part {
            ".." if parts.pop().is_none() => return Some(path.to_owned()),
            ".." => {}
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken_in(path: &str, text: &str) -> Vec<String> {
        let exists = |path: &str| ["README.md", "docs/a.md", "src"].contains(&path);
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
