//! Tests the output of the example, and the arguments that it refuses.

use std::fs;

use clap::{CommandFactory as _, Parser as _};
use tempfile::TempDir;

use crate::learning::Learned;
use crate::program::first_line;
use crate::table::Row;
use crate::way::{Expected, STOPS, Stop};
use crate::{Arguments, run};

/// The output, or the error in one line.
fn printed(line: &str) -> Result<String, String> {
    let arguments = Arguments::try_parse_from(format!("tour {line}").split_whitespace());
    let mut to = Vec::new();
    run(&arguments.map_err(|error| first_line(&error))?, &mut to).map_err(|error| first_line(&error))?;
    String::from_utf8(to).map_err(|error| error.to_string())
}

#[test]
fn the_description_is_consistent() {
    Arguments::command().debug_assert();
}

/// One test, because budgets belong to the process.
#[test]
fn each_way_has_its_row_and_the_page_its_drawings() {
    let folder = TempDir::with_prefix("toma-tour-").unwrap();
    let path = folder.path().join("page.html");
    let text = printed(&format!("--batch 300 --steps 3 --budget 60 --html {}", path.display())).unwrap();
    for stop in &STOPS {
        let rows = text.lines().filter(|line| line.split("  ").next() == Some(stop.name)).count();
        assert_eq!(rows, STOPS.iter().filter(|other| other.name == stop.name).count(), "{text}");
    }
    for part in ["The line that holds the peak:\n  examples/tour/net.rs:", "planned: auto: ", " offloads, "] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    let page = fs::read_to_string(path).unwrap();
    assert_eq!(page.matches("<tr>").count(), 1 + STOPS.len());
    assert_eq!(page.matches("<svg").count(), 2, "the profile's are within its frame");
    assert!(page.contains("&#60;svg class=&#34;timeline&#34;"), "{page}");
    let unused = folder.path().join("unused.html");
    for (tight, part) in [(90, "memory must run out"), (1, "must have the losses of the first row")] {
        let line = format!("--batch 300 --steps 2 --budget 60 --tight {tight} --html {}", unused.display());
        let error = printed(&line).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_page_that_has_no_place_is_refused_before_the_first_step() {
    let folder = TempDir::with_prefix("toma-tour-").unwrap();
    let missing = folder.path().join("missing");
    let page = missing.join("page.html");
    for (path, wrong) in [
        (page.as_path(), format!("there is no folder {}", missing.display())),
        (folder.path(), "is a folder".to_owned()),
    ] {
        let arguments = Arguments::try_parse_from(["tour", "--html", path.to_str().unwrap()]).unwrap();
        let mut to = Vec::new();
        let error = run(&arguments, &mut to).unwrap_err().to_string();
        assert_eq!(error, format!("--html {}: {wrong}", path.display()));
        assert_eq!(to, b"", "nothing has begun");
    }
}

fn row(expected: Expected, learned: Learned) -> Result<(), String> {
    let stop = STOPS.iter().find(|stop| stop.expected == expected).unwrap();
    let first = Learned { losses: vec![2.0, 1.0], ..Learned::default() };
    Row::new(stop, Some(100), learned, Some(&first)).check().map_err(|error| error.to_string())
}

#[test]
fn another_loss_a_failure_and_a_byte_too_many_are_errors() {
    use Expected::{OutOfMemory, Pieces, PiecesAfterFailures, SameBits};
    let with = |losses: [f64; 2], out_of_memory, peak_bytes| Learned {
        losses: losses.to_vec(),
        out_of_memory,
        peak_bytes,
        ..Learned::default()
    };
    let same = [2.0, 1.0];
    assert_eq!(row(SameBits, with(same, 0, 100)), Ok(()));
    assert_eq!(row(Pieces, with([2.0, 1.0 + 1e-6], 0, 100)), Ok(()));
    assert_eq!(row(PiecesAfterFailures, with(same, 1, 100)), Ok(()));
    for (expected, wrong, part) in [
        (SameBits, with([2.0, 1.0 + 1e-15], 0, 100), "must have the losses of the first row"),
        (SameBits, with(same, 1, 100), "must have the losses of the first row"),
        (SameBits, with(same, 0, 101), "the budget is exceeded: budget 100 B, peak 101 B"),
        (Pieces, with([2.0, 1.1], 0, 100), "losses must differ by at most 1e-5"),
        (Pieces, with([f64::NAN, 1.0], 0, 100), "losses must differ by at most 1e-5"),
        (Pieces, with(same, 1, 100), "memory must never run out"),
        (PiecesAfterFailures, with(same, 0, 100), "after memory has run out"),
        (OutOfMemory, with(same, 0, 100), "memory must run out"),
    ] {
        let error = row(expected, wrong).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_way_that_ends_early_prints_the_reason() {
    let learned = Learned { ended: Some("no room".to_owned()), ..Learned::default() };
    let error = row(Expected::SameBits, learned).unwrap_err();
    assert!(error.ends_with("loss differs ended; no room"), "{error}");
    assert!(STOPS.iter().any(|Stop { expected, .. }| *expected == Expected::OutOfMemory));
}
