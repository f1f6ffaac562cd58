//! A text of real lines: the documentation of the packages that this project is built with, which is on every
//! machine that can build it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::metadata::Metadata;
use crate::project::Project;

/// How many lines the text has.
const LINES: usize = 6000;

/// With fewer it would show nothing.
const AT_LEAST: usize = 5000;

/// Lines of one package, so that the text has many subjects.
const PER_PACKAGE: usize = 40;

/// Words a line must have to count: headings of one word and rulers say nothing.
const WORDS: usize = 3;

/// Writes the text into `demo/lines.txt` in the target folder, and says where that is.
pub(super) fn write(project: &Project) -> Result<PathBuf> {
    let found = collect(folders(&project.metadata()?).iter().map(|folder| documentation(folder)));
    ensure!(
        found.len() >= AT_LEAST,
        "found {} lines of documentation in the packages on this machine, {AT_LEAST} are needed; `cargo fetch` \
         brings more",
        found.len()
    );
    let folder = project.workspace.target_dir.join("demo");
    let path = folder.join("lines.txt");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&path, found.join("\n") + "\n"))
        .with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("{} lines from the documentation of packages, in {}", found.len(), path.display());
    Ok(path)
}

/// The folders of the packages that the workspace depends on, by name and version.
fn folders(metadata: &Metadata) -> Vec<PathBuf> {
    let packages = metadata.packages.iter().filter(|package| package.source.is_some());
    let mut folders: Vec<_> =
        packages.filter_map(|package| package.manifest.parent().map(Path::to_owned)).collect();
    folders.sort_by_key(|folder| folder.file_name().map(ToOwned::to_owned));
    folders
}

/// The texts of a package, in an order that does not change.
fn documentation(package: &Path) -> impl Iterator<Item = String> + use<> {
    let (mut open, mut files) = (vec![package.join("src")], Vec::new());
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    // What is not UTF-8 is no text.
    files.into_iter().filter_map(|path| fs::read_to_string(path).ok())
}

/// The first lines of each package that are not the same as an earlier one.
fn collect<T: Iterator<Item = String>>(packages: impl Iterator<Item = T>) -> Vec<String> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for texts in packages {
        let new = texts.flat_map(|text| lines(&text)).filter(|line| seen.insert(line.clone()));
        found.extend(new.take(PER_PACKAGE.min(LINES - found.len())));
    }
    found
}

/// The prose in the documentation comments of a source: no code, no tables.
fn lines(text: &str) -> Vec<String> {
    let (mut found, mut in_code) = (Vec::new(), false);
    for line in text.lines().filter_map(comment).map(str::trim) {
        if line.starts_with("```") || line.starts_with("~~~") {
            in_code = !in_code;
        } else if !in_code && !line.starts_with(['|', '<', '[']) {
            let line = line.trim_start_matches(['#', '*', '-', '>', ' ']);
            found.extend(is_readable(line).then(|| line.to_owned()));
        }
    }
    found
}

/// What a documentation comment says.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    // A line of slashes is a ruler.
    (!text.starts_with('/')).then_some(text)
}

fn is_readable(line: &str) -> bool {
    line.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).nth(WORDS - 1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use crate::tests::Scratch;
    use crate::tests::{metadata, package};

    fn numbered(range: std::ops::Range<usize>) -> impl Iterator<Item = String> {
        range.map(|i| format!("/// this is line {i}"))
    }

    #[test]
    fn no_line_comes_twice_and_no_package_fills_the_text() {
        let found = collect([numbered(0..3), numbered(1..1000), numbered(0..4)].into_iter());
        let expected: Vec<_> = (0..3 + PER_PACKAGE).map(|i| format!("this is line {i}")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn there_are_never_more_lines_than_asked_for() {
        let packages = (0..200).map(|i| numbered(i * 1000..(i + 1) * 1000));
        assert_eq!(collect(packages).len(), LINES);
    }

    #[test]
    fn only_prose_in_documentation_is_read() {
        let text = "//! What this is for.\n// not a word of this\nfn f() {} /// nor of this one\n    /// - Reads one more line.\n\
                    //////////////// ruler of many\n/// ```\n/// let a = code that runs;\n/// ```\n/// # Errors\n\
                    /// | a table of words |\n/// [a link]: to a page\n/// <p>a bit of HTML\n/// # When it fails\n";
        assert_eq!(lines(text), ["What this is for.", "Reads one more line.", "When it fails"]);
    }

    #[test]
    fn sources_of_a_package_come_by_path() {
        let scratch = Scratch::new("documents");
        for path in ["src/b.rs", "src/a/c.rs", "src/lib.rs", "build.rs"] {
            scratch.file(path, path);
        }
        let found: Vec<_> = documentation(scratch.root()).collect();
        assert_eq!(found, ["src/a/c.rs", "src/b.rs", "src/lib.rs"]);
        assert_eq!(documentation(&scratch.path("nowhere")).next(), None);
    }

    #[test]
    fn packages_come_by_name_wherever_they_are() {
        let at = |path: &str, source: Option<&str>| {
            package("core", json!({ "manifest_path": path, "source": source }))
        };
        let packages = [
            at("/z/anyhow-1.0.0/Cargo.toml", Some("registry")),
            at("/a/syn-3.0.0/Cargo.toml", Some("registry")),
            at("/w/toma/Cargo.toml", None),
        ];
        let found = folders(&metadata(&packages).unwrap());
        assert_eq!(found, ["/z/anyhow-1.0.0", "/a/syn-3.0.0"].map(PathBuf::from));
    }
}
