//! A list of names in the repository, and what has changed since it was written.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;

use crate::project::Project;

/// What a crate has now, and the file that says what it had.
#[derive(Debug)]
pub(super) struct Snapshot {
    file: PathBuf,
    now: BTreeSet<String>,
}

impl Snapshot {
    pub(super) fn new(file: PathBuf, lines: impl IntoIterator<Item = String>) -> Self {
        Self { file, now: lines.into_iter().collect() }
    }

    /// Writes the file if it is to be blessed; otherwise gives what has changed, or nothing.
    pub(super) fn settle(&self, project: &Project, bless: bool) -> Result<String> {
        let lines = self.now.iter().fold(String::new(), |text, line| text + line + "\n");
        if bless {
            project.shell.write_file(&self.file, lines)?;
            return Ok(String::new());
        }
        // Without a file every name is new.
        let before = project.shell.read_file(&self.file).unwrap_or_default();
        Ok(self.changes(&before))
    }

    /// The names that are only in one of the two, in words; nothing where there are none.
    fn changes(&self, before: &str) -> String {
        let before: BTreeSet<_> = before.lines().collect();
        let now: BTreeSet<_> = self.now.iter().map(String::as_str).collect();
        if before == now {
            return String::new();
        }
        let mut text = format!("{}: what users can name has changed", self.file.display());
        for (word, lines) in [("added  ", &now - &before), ("removed", &before - &now)] {
            text.extend(lines.iter().map(|line| format!("\n  {word}  {line}")));
        }
        text + "\n  `cargo xtask test surface --bless` accepts it"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(before: &str, now: &[&str]) -> String {
        Snapshot::new("a.txt".into(), now.iter().map(ToString::to_string)).changes(before)
    }

    #[test]
    fn what_is_the_same_in_any_order_is_no_change() {
        assert_eq!(changes("a::b\na::c\n", &["a::c", "a::b", "a::b"]), "");
        assert_eq!(changes("", &[]), "");
    }

    #[test]
    fn a_name_without_its_snapshot_is_a_problem() {
        let told = changes("a::b\n", &["a::b", "a::c"]);
        assert!(told.contains("a.txt: what users can name has changed\n  added    a::c\n  `cargo"), "{told}");
        assert!(changes("", &["a::b"]).contains("added    a::b"), "no snapshot at all");
    }

    #[test]
    fn a_changed_signature_is_removed_and_added() {
        let told = changes("pub fn f()\n", &["pub fn f(u8)"]);
        assert!(told.contains("added    pub fn f(u8)\n  removed  pub fn f()\n"), "{told}");
    }
}
