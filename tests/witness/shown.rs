//! The printed form of the objects that filled the memory.

use expect_test::expect;
use toma::classify::OutOfMemory;
use toma::{NoCache, execute, report};

use crate::child;
use crate::scripted::{Session, knows_nothing};

fn shrinks() {
    let body = |start, end| if end - start > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) };
    execute::with::<NoCache>().name("work").range(0..4, 4, body).unwrap();
}

#[test]
fn a_report_has_the_last_answer_in_a_column() {
    let _session = Session::new();
    shrinks();
    let report = report::last().unwrap();
    assert_eq!(report.filled.as_deref(), Some("a net\nanswer 2"));
    let text = report.to_string();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("  lost")).collect();
    expect![[r"
        work: 4 items in 6 attempts, 2 out of memory
          started  at 4, nothing was remembered
          tried    4 -> 2 -> 1 worked 4 times
          learned  1 works, 2 does not; 1 is the limit
          filled   a net
                   answer 2
          next     starts at 4 again, because NoCache remembers nothing
    "]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

/// The report describes the last failure.
#[test]
fn an_older_answer_is_not_kept() {
    let _session = Session::new();
    execute::with::<NoCache>()
        .range(0..4, 4, |start, end| {
            if end - start < 4 {
                knows_nothing();
            }
            if end - start > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        })
        .unwrap();
    let report = report::last().unwrap();
    assert_eq!(report.filled, None);
    assert!(!report.to_string().contains("filled"));
}

#[test]
fn other_failures_are_not_asked_about() {
    let session = Session::new();
    let body = |size| if size > 1 { Err("x".parse::<u8>().unwrap_err()) } else { Ok(()) };
    execute::with::<NoCache>().batch(2, body).unwrap_err();
    assert!(!session.take().contains("asked"));
    assert_eq!(report::last().unwrap().filled, None);
}

#[test]
fn the_log_prints_it_under_the_failure() {
    let test = "shown::the_log_prints_it_under_the_failure";
    let Some(ended) = child::run(test, &[("TOMA_LOG", "1")]) else {
        let _session = Session::new();
        shrinks();
        return;
    };
    let lines: Vec<_> = ended.passed().into_iter().take(8).collect();
    expect![[r"
        toma: work: out of memory at size 4, FREE free: out of memory
          a net
          answer 1
        toma: work: shrinks from 4 to 2
        toma: work: out of memory at size 2, FREE free: out of memory
          a net
          answer 2
        toma: work: shrinks from 2 to 1
    "]]
    .assert_eq(&lines.iter().map(|line| without_free(line) + "\n").collect::<String>());
}

/// Removes the free bytes, which depend on the machine.
fn without_free(line: &str) -> String {
    match (line.split_once(", "), line.split_once(" free")) {
        (Some((before, _)), Some((_, after))) => format!("{before}, FREE free{after}"),
        _ => line.to_owned(),
    }
}

#[cfg(feature = "tracing")]
#[test]
fn tracing_gets_it_as_a_field() {
    use tracing::level_filters::LevelFilter;

    let _session = Session::new();
    let text = crate::subscriber::Collect::up_to(LevelFilter::TRACE).during(shrinks);
    let answers = [1, 2].map(|n| text.matches(&format!(r#" filled="a net\nanswer {n}""#)).count());
    assert_eq!((answers, text.matches(" filled=").count()), ([1, 1], 2), "{text}");
}
