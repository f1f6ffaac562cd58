//! A text of real lines, out of what is on every machine that can build us: our own documents,
//! those of the Rust toolchain, and those of the packages we depend on.

mod lines;
mod sources;

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::project::Project;
use lines::{Kind, lines};

/// How many lines the text has.
const LINES: usize = 6000;

/// With fewer it would show nothing.
const AT_LEAST: usize = 5000;

/// Writes the text into `demo/lines.txt` in the target folder, and says where that is.
pub(crate) fn write(project: &Project) -> Result<PathBuf> {
    let sources = sources::sources(project)?;
    let texts = sources.iter().filter_map(|(path, kind)| {
        // What is not UTF-8 is no text for us.
        Some((fs::read_to_string(path).ok()?, *kind))
    });
    let found = collect(texts);
    ensure!(
        found.len() >= AT_LEAST,
        "found {} lines of text in {} files of this machine, {AT_LEAST} are needed; \
         `rustup component add rust-docs` and `cargo fetch` bring more",
        found.len(),
        sources.len()
    );
    let folder = project.workspace.target_dir.join("demo");
    let path = folder.join("lines.txt");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&path, found.join("\n") + "\n"))
        .with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("{} lines from the documents on this machine, in {}", found.len(), path.display());
    Ok(path)
}

/// The first lines that are not the same as an earlier one.
fn collect(texts: impl Iterator<Item = (String, Kind)>) -> Vec<String> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for (text, kind) in texts {
        for line in lines(&text, kind) {
            if found.len() == LINES {
                return found;
            }
            if seen.insert(line.clone()) {
                found.push(line);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(range: std::ops::Range<usize>) -> (String, Kind) {
        (range.map(|i| format!("this is line {i}")).collect::<Vec<_>>().join("\n"), Kind::Plain)
    }

    #[test]
    fn no_line_comes_twice_and_the_order_stays() {
        let found = collect([numbered(0..3), numbered(1..5)].into_iter());
        let expected: Vec<_> = (0..5).map(|i| format!("this is line {i}")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn there_are_never_more_lines_than_asked_for() {
        let texts = [numbered(0..LINES - 1), numbered(LINES - 2..LINES + 50)];
        let found = collect(texts.into_iter());
        assert_eq!(found.len(), LINES);
        assert_eq!(found.last().unwrap(), &format!("this is line {}", LINES - 1));
    }

    #[test]
    fn a_text_that_is_not_needed_is_not_read() {
        let endless = (0..).map(|i| numbered(i * 1000..(i + 1) * 1000));
        assert_eq!(collect(endless).len(), LINES);
    }
}
