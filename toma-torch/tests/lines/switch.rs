//! Tests `TOMA_PROFILE`, each in a process of its own.

use crate::ground;
use std::path::Path;
use std::{fs, process};

use crate::ground::Budget;
use tch::Tensor;
use toma::NoCache;
use toma_torch::profile::{self, Profiler};

use crate::alone;
use crate::child::{self, Ended};

#[toma::profile]
fn product(rows: i64) -> Tensor {
    let ones = Tensor::ones([rows, 1 << 10], ground::floats());
    ones.sin()
}

fn batches() {
    let _budget = Budget::beyond_allocated(20 << 12);
    let rows =
        toma::execute::with::<NoCache>().batch(16, |rows| product(i64::try_from(rows).unwrap()).size()[0]);
    assert_eq!(rows, 8);
}

/// Runs the same test in a child process with this value of the variable. The child calls `work` and exits with code 7.
fn ended(test: &str, value: &str, work: impl FnOnce()) -> Ended {
    child::run(test, &[("TOMA_PROFILE", value)]).unwrap_or_else(|| {
        work();
        process::exit(7)
    })
}

fn has(ended: &Ended, text: &str) -> bool {
    ended.stderr.iter().any(|line| line.contains(text))
}

/// Meanwhile a profiler of the program is refused with a reason.
#[test]
fn tables_are_printed_at_the_exit_that_the_program_has_chosen() {
    let _alone = alone();
    let name = "switch::tables_are_printed_at_the_exit_that_the_program_has_chosen";
    let ended = ended(name, "1", || {
        batches();
        let error = Profiler::new().start().unwrap_err().to_string();
        assert_eq!(error, "profiler: another runs, or TOMA_PROFILE is set: one at a time");
    });
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    assert!(has(&ended, "peak of 64.00K on host at toma-torch/tests/lines/switch.rs:"), "{ended:?}");
    assert!(has(&ended, "ones.sin()"), "{ended:?}");
}

#[test]
fn tables_are_printed_after_a_panic_too() {
    let _alone = alone();
    let name = "switch::tables_are_printed_after_a_panic_too";
    let ended = child::run(name, &[("TOMA_PROFILE", "1")]).unwrap_or_else(|| {
        batches();
        panic!("of the program");
    });
    assert_eq!(ended.status.code(), Some(101), "{ended:?}");
    assert!(has(&ended, "of the program") && has(&ended, "ones.sin()"), "{ended:?}");
}

#[test]
fn of_failures_alone_nothing_else_is_printed() {
    let _alone = alone();
    let ended = ended("switch::of_failures_alone_nothing_else_is_printed", "oom", batches);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let lines: Vec<_> = ended.stderr.iter().filter(|line| line.contains("asked for")).collect();
    let [line] = lines[..] else { panic!("{ended:?}") };
    assert!(line.starts_with("toma: sin @ toma-torch/tests/lines/switch.rs:"), "{line}");
    assert!(!has(&ended, "peak of"), "{ended:?}");
}

#[test]
fn a_failure_in_no_loop_is_printed_at_the_end() {
    let _alone = alone();
    let name = "switch::a_failure_in_no_loop_is_printed_at_the_end";
    let ended = child::run(name, &[("TOMA_PROFILE", "oom")]).unwrap_or_else(|| {
        batches();
        let _budget = Budget::beyond_allocated(20 << 12);
        drop(product(16));
        panic!("it does not fit");
    });
    assert_eq!(ended.status.code(), Some(101), "{ended:?}");
    let lines: Vec<_> = ended.stderr.iter().filter(|line| line.contains("asked for")).collect();
    let [in_loop, at_end] = lines[..] else { panic!("{ended:?}") };
    assert_eq!(in_loop, at_end);
    assert!(at_end.starts_with("toma: sin @ toma-torch/tests/lines/switch.rs:"), "{at_end}");
}

#[test]
fn a_folder_gets_four_files() {
    let _alone = alone();
    let mut folder = Some(tempfile::tempdir().unwrap());
    let wanted = folder.as_ref().unwrap().path().join("new");
    let value = format!("{}/", wanted.display());
    let ended = ended("switch::a_folder_gets_four_files", &value, || {
        batches();
        // The child has a folder of its own, and its exit drops nothing.
        drop(folder.take());
    });
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let files = fs::read_dir(&wanted).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.collect();
    files.sort_unstable();
    assert_eq!(files, ["memory_viz.pickle", "perfetto.json", "profile.html", "profile.txt"]);
    let text = fs::read_to_string(wanted.join("profile.txt")).unwrap();
    assert!(text.contains("ones.sin()"), "{text}");
}

#[test]
fn a_value_that_means_nothing_is_one_line_and_the_program_goes_on() {
    let _alone = alone();
    let name = "switch::a_value_that_means_nothing_is_one_line_and_the_program_goes_on";
    let ended = ended(name, "yes", batches);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let line = "toma: TOMA_PROFILE=yes: must be 1, oom, 0, or a folder with a slash; taken for 0";
    assert_eq!(ended.stderr.iter().filter(|printed| *printed == line).count(), 1, "{ended:?}");
    assert!(!has(&ended, "ones.sin()"), "{ended:?}");
}

#[test]
fn a_folder_that_cannot_be_written_is_one_line_and_the_program_goes_on() {
    let _alone = alone();
    let mut file = Some(tempfile::NamedTempFile::new().unwrap());
    let value = format!("{}/", file.as_ref().unwrap().path().display());
    let name = "switch::a_folder_that_cannot_be_written_is_one_line_and_the_program_goes_on";
    let ended = ended(name, &value, || {
        batches();
        drop(file.take());
    });
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let lines: Vec<_> = ended.stderr.iter().filter(|line| line.contains("TOMA_PROFILE")).collect();
    let [line] = lines[..] else { panic!("{ended:?}") };
    assert!(line.starts_with(&format!("toma: TOMA_PROFILE={value}: ")), "{line}");
}

/// The folder exists at the start and is removed before the end.
#[test]
fn a_folder_that_is_gone_at_the_end_is_one_line() {
    let _alone = alone();
    let mut folder = Some(tempfile::tempdir().unwrap());
    let wanted = folder.as_ref().unwrap().path().join("gone");
    let name = "switch::a_folder_that_is_gone_at_the_end_is_one_line";
    let remove = || {
        fs::remove_dir(Path::new(&std::env::var_os("TOMA_PROFILE").unwrap())).unwrap();
        drop(folder.take());
    };
    let ended = ended(name, &format!("{}/", wanted.display()), remove);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let lines: Vec<_> = ended.stderr.iter().filter(|line| line.starts_with("toma: ")).collect();
    let [line] = lines[..] else { panic!("{ended:?}") };
    assert!(line.contains("TOMA_PROFILE") && line.contains("profile.txt: "), "{line}");
}

#[test]
fn rows_from_before_a_clear_are_in_no_table() {
    let _alone = alone();
    let ended = ended("switch::rows_from_before_a_clear_are_in_no_table", "1", || {
        batches();
        profile::clear();
    });
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    assert!(has(&ended, "peak of") && !has(&ended, "ones.sin()"), "{ended:?}");
}

#[test]
fn a_standard_error_that_is_closed_does_not_matter() {
    let _alone = alone();
    let name = "switch::a_standard_error_that_is_closed_does_not_matter";
    let status = child::run_unheard(name, &[("TOMA_PROFILE", "1")]).unwrap_or_else(|| {
        child::wait_to_be_unheard();
        batches();
        process::exit(7)
    });
    assert_eq!(status.code(), Some(7), "{status}");
}
