//! Downloads that go on where they stopped, which pip's do not: half a gigabyte is too much to begin
//! again.

use std::fs;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Result, bail};

use crate::project::Project;

/// In Python alone, because that is there.
const SCRIPT: &str = include_str!("fetch.py");

/// How the script ends where pip may do better.
const LEFT_TO_PIP: i32 = 3;

/// How it ends where it has removed what it got.
const WRONG_FILE: i32 = 4;

/// Gets the files that a report of pip's names into `folder`, and checks their checksums. Says no
/// where that is left to pip, whose settings may know a way that we do not.
pub(super) fn resumable(project: &Project, python: &Path, report: &Path, folder: &Path) -> Result<bool> {
    let style = if project.plain || !std::io::stderr().is_terminal() { "plain" } else { "lively" };
    let script = project.command(python).args(["-c", SCRIPT]).arg(report).arg(folder).arg(style);
    ended(Command::from(script).status()?)
}

fn ended(status: ExitStatus) -> Result<bool> {
    match status.code() {
        Some(0) => Ok(true),
        Some(LEFT_TO_PIP) => Ok(false),
        Some(WRONG_FILE) => bail!(
            "a file was not the one of its checksum, see above, and is removed; run the same command again: it gets that \
             file from its beginning"
        ),
        _ => bail!(
            "the download was interrupted ({status}); run the same command again: it goes on where it stopped"
        ),
    }
}

/// Bytes that are there already, whole files or not.
pub(super) fn fetched(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests;
