//! Mistakes: each file in `tests/ui` makes one and is named after it, and the `.stderr` beside it is
//! what the compiler then says: one error.
//!
//! `tests/ui/attribute` holds the attributes' own words, the same on every toolchain; all of them are
//! tested in the crate of the attributes, where no compiler is needed. In `tests/ui/compiler` the
//! compiler speaks, with hints of ours: its words, and the lines of ours that it quotes, change from
//! release to release. So these are compared only with the release they were written by. To write them
//! again, for instance for a new release (change [`WRITTEN_BY`] then):
//! `TRYBUILD=overwrite cargo test --test macros mistakes:: -- --ignored`, and read what has changed.

use std::io::{self, Write as _};
use std::process::Command;

/// The release that wrote `tests/ui/compiler/*.stderr`.
const WRITTEN_BY: &str = "rustc 1.95.";

#[test]
#[ignore = "compiles 28 programs: cargo xtask nightly"]
fn mistakes() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/attribute/*.rs");
    let release = release();
    if release.starts_with(WRITTEN_BY) {
        cases.compile_fail("tests/ui/compiler/*.rs");
    } else {
        skipped(&release);
    }
}

/// Past the capture of the test harness, which shows nothing of tests that succeed.
fn skipped(release: &str) {
    let cases = "tests/ui/compiler is not compared";
    let _ = writeln!(io::stderr(), "{cases}: written by {WRITTEN_BY}x, this is {release}");
}

fn release() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("cargo runs rustc, so it is there");
    String::from_utf8_lossy(&version.stdout).trim().to_owned()
}

/// Gives a second error after the clear one, from which the compiler cannot be kept.
const TWO_ERRORS: [&str; 1] = ["data_that_cannot_be_chunked"];

#[test]
fn each_gives_one_error() {
    let mut several = Vec::new();
    for folder in ["tests/ui/attribute", "tests/ui/compiler"] {
        for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "stderr") {
                let text = std::fs::read_to_string(&file).unwrap();
                let errors = text.lines().filter(|line| line.starts_with("error")).count();
                assert!(errors > 0, "{} shows no error", file.display());
                if errors > 1 {
                    several.push(file.file_stem().unwrap().to_string_lossy().into_owned());
                }
            }
        }
    }
    several.sort();
    assert_eq!(several, TWO_ERRORS);
}
