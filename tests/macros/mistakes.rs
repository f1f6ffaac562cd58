//! Each file in `tests/ui` makes one mistake and is named after it. The `.stderr` beside it holds the expected output
//! of the compiler: one error.
//!
//! `tests/ui/attribute` holds the messages of the attributes themselves, which are the same on every toolchain; all of
//! them are tested in the crate of the attributes, where no compiler is needed. `tests/ui/compiler` holds errors of the
//! compiler with hints of this crate. Their text, and the lines of this crate that they quote, change from release to
//! release, so they are compared only with the release that wrote them. To write them again, for instance for a new
//! release (change [`WRITTEN_BY`] then): `TRYBUILD=overwrite cargo test --test macros mistakes:: -- --ignored`, and
//! review the changes.

use std::io::{self, Write as _};
use std::process::Command;

/// The release that wrote `tests/ui/compiler/*.stderr`.
const WRITTEN_BY: &str = "rustc 1.95.";

#[test]
#[ignore = "compiles 23 programs: cargo xtask nightly compile-fail"]
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

/// Prints past the capture of the test harness, which shows no output of tests that succeed.
fn skipped(release: &str) {
    let cases = "tests/ui/compiler is not compared";
    let _ = writeln!(io::stderr(), "{cases}: written by {WRITTEN_BY}x, this is {release}");
}

fn release() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("cargo runs rustc, so it is there");
    String::from_utf8_lossy(&version.stdout).trim().to_owned()
}

/// Files with a second error after the clear one, which the compiler reports in any case.
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
