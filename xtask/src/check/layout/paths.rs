//! Files and folders that the map of the repository names.

use super::files::TextFile;

/// Documents that lead a reader to sources, by paths that may begin at any folder.
const MAPS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "DESIGN.md", "README.md", "examples/README.md"];

const SOURCES: &[&str] = &[".rs", ".cpp", ".h"];

/// Paths in those documents at whose end no file or folder stands.
pub(super) fn unknown(files: &[TextFile]) -> Vec<String> {
    let maps = files.iter().filter(|file| MAPS.contains(&&*file.path));
    maps.flat_map(|map| unknown_in(map, files)).collect()
}

fn unknown_in(map: &TextFile, files: &[TextFile]) -> Vec<String> {
    let named =
        map.text.lines().zip(1..).flat_map(|(line, number)| named(line).map(move |path| (path, number)));
    let unknown = named.filter(|(path, _)| !files.iter().any(|file| leads_to(path, &file.path)));
    unknown.map(|(path, number)| format!("{}:{number}: `{path}` is no file or folder", map.path)).collect()
}

/// The words of a line that look like a source file or a folder.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |sign: char| sign.is_ascii_alphanumeric() || "_-./".contains(sign);
    let words = line.split(move |sign| !is_of_path(sign)).map(|word| word.trim_end_matches('.'));
    // Links have a check of their own, and so has the web.
    let is_path = |word: &&str| word.ends_with('/') || SOURCES.iter().any(|end| word.ends_with(end));
    words.filter(is_path).filter(|word| word.starts_with(|sign: char| sign.is_ascii_alphanumeric()))
}

/// Whether a file of this path is what is named, or in the folder that is.
fn leads_to(named: &str, path: &str) -> bool {
    let path = format!("/{path}");
    let named = format!("/{named}");
    if named.ends_with('/') { path.contains(&named) } else { path.ends_with(&named) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_of(text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        unknown(&[
            file("ARCHITECTURE.md", text),
            file("core/src/engine/drive.rs", ""),
            file("CHANGELOG.md", "no.rs"),
        ])
    }

    #[test]
    fn paths_are_known_from_any_folder_on() {
        let text = "`drive.rs`, `engine/drive.rs`; `core/src/`.\nengine/  what runs (src/engine/drive.rs).";
        assert_eq!(unknown_of(text), [""; 0]);
    }

    #[test]
    fn what_is_not_there_is_told_with_its_line() {
        let text = "a\n`rive.rs` and `engines/`\n```text\n  gine/   a.cpp\n```";
        let lines: Vec<_> = unknown_of(text).iter().map(|problem| problem[16..18].to_owned()).collect();
        assert_eq!(lines, ["2:", "2:", "4:", "4:"]);
        assert_eq!(unknown_of("`rive.rs`"), ["ARCHITECTURE.md:1: `rive.rs` is no file or folder"]);
        let of = |path: &str| unknown(&[TextFile { path: path.into(), text: "tests/no.rs".into() }]);
        assert_eq!(of("CONTRIBUTING.md"), ["CONTRIBUTING.md:1: `tests/no.rs` is no file or folder"]);
    }

    #[test]
    fn other_words_are_passed_over() {
        assert_eq!(unknown_of("Call::open, a or/and b, 1.5 and .rs and `.h`, toma-core"), [""; 0]);
    }
}
