//! `TOMA_LOG`, `TOMA_DISABLE` and `TOMA_INJECT`, each in a process of its own.

use std::io;

use toma::{GlobalCache, NoCache, execute};

use crate::child;
use crate::kit::{Memory, OUT_OF_MEMORY};

/// A memory of 4 GiB, half of which is free.
static HALF: Memory = Memory::named("half", 2 << 30, 4 << 30);

fn above(limit: usize, size: usize) -> io::Result<()> {
    if size > limit { Err(io::Error::other(OUT_OF_MEMORY)) } else { Ok(()) }
}

fn range(sizes: &GlobalCache, limit: usize) -> io::Result<()> {
    let with = execute::with::<NoCache>().cache(sizes).device(&HALF).name("resize");
    with.range(0..40, 32, |start, end| above(limit, end - start))
}

#[test]
fn the_log_has_every_failure_and_its_answer() {
    let Some(ended) =
        child::run("adversity::environment::the_log_has_every_failure_and_its_answer", &[("TOMA_LOG", "1")])
    else {
        let sizes = GlobalCache::new();
        range(&sizes, 8).unwrap();
        range(&sizes, 8).unwrap();
        range(&sizes, 0).unwrap_err();
        execute::with::<NoCache>().name("quiet").range(0..40, 32, |_, _| ());
        let other = || Err::<(), _>(io::Error::other("disk full"));
        execute::with::<NoCache>().device(&HALF).name("other").batch(8, |_| other()).unwrap_err();
        return;
    };
    let failed = |size| {
        format!(
            "toma: resize: out of memory at size {size}, 2.0 GiB requested, 2.0 GiB free: {OUT_OF_MEMORY}"
        )
    };
    let shrinks = |from, to| format!("toma: resize: shrinks from {from} to {to}");
    let first =
        [failed(32), shrinks(32, 16), failed(16), shrinks(16, 8), "toma: resize: settles at 8".into()];
    let last = [failed(8), shrinks(8, 4), failed(4), shrinks(4, 2), failed(2), shrinks(2, 1), failed(1)];
    let rest = [
        "toma: resize: gives up at 1: no smaller size is allowed",
        "toma: other: other failure at size 8: disk full",
        "toma: other: gives up at 8: not out of memory",
    ];
    let expected: Vec<String> = first.into_iter().chain(last).chain(rest.map(str::to_owned)).collect();
    assert_eq!(ended.passed(), expected);
}

#[test]
fn an_empty_or_zero_setting_is_none() {
    let settings = [("TOMA_LOG", "0"), ("TOMA_DISABLE", "")];
    let Some(ended) = child::run("adversity::environment::an_empty_or_zero_setting_is_none", &settings)
    else {
        return range(&GlobalCache::new(), 8).unwrap();
    };
    assert_eq!(ended.passed(), [""; 0]);
}

#[test]
fn a_log_that_is_not_read_stops_nothing() {
    let Some(status) = child::run_unheard(
        "adversity::environment::a_log_that_is_not_read_stops_nothing",
        &[("TOMA_LOG", "1")],
    ) else {
        child::wait_to_be_unheard();
        let mut done = Vec::new();
        let with = execute::with::<NoCache>().device(&HALF);
        with.range(0..40, 32, |start, end| above(8, end - start).map(|()| done.extend(start..end))).unwrap();
        assert_eq!(done, (0..40).collect::<Vec<_>>());
        return;
    };
    assert!(status.success(), "{status:?}");
}

#[toma::batch(initial = 32)]
fn annotated(size: usize, tried: &mut Vec<usize>) -> io::Result<()> {
    tried.push(size);
    above(8, size)
}

#[test]
fn disabled_every_body_runs_once_at_the_initial_size() {
    let settings = [("TOMA_DISABLE", "1"), ("TOMA_LOG", "1")];
    let Some(ended) =
        child::run("adversity::environment::disabled_every_body_runs_once_at_the_initial_size", &settings)
    else {
        return run_disabled();
    };
    let stderr = ended.passed();
    let mut lines = stderr.iter().map(String::as_str);
    let mut next = || lines.next().unwrap_or_default();
    for name in ["adversity::environment::annotated", "resize"] {
        let name = if name == "resize" { name.to_owned() } else { format!("devices::{name}") };
        assert_eq!(
            next(),
            format!("toma: {name}: out of memory at size 32, 2.0 GiB requested: {OUT_OF_MEMORY}")
        );
        assert_eq!(next(), format!("toma: {name}: gives up at 32: TOMA_DISABLE is set"));
    }
    // The panic is printed, because no attempt follows.
    assert_eq!(next(), "");
    assert!(next().contains("panicked at tests/devices/adversity/environment.rs:"));
    assert_eq!(next(), OUT_OF_MEMORY);
    let rest: Vec<_> = std::iter::from_fn(|| Some(next()).filter(|line| !line.is_empty())).collect();
    assert_eq!(rest.last(), Some(&"toma: panics: gives up at 32: TOMA_DISABLE is set"), "{rest:?}");
    assert!(rest.len() <= 3, "{rest:?}");
}

fn run_disabled() {
    let mut tried = Vec::new();
    assert_eq!(annotated(&mut tried).unwrap_err().to_string(), OUT_OF_MEMORY);
    assert_eq!(tried, [32]);
    let sizes = GlobalCache::new();
    sizes.seed("resize", 8);
    assert_eq!(range(&sizes, 8).unwrap_err().to_string(), OUT_OF_MEMORY);
    assert!(sizes.entries().is_empty());
    let panicked = std::panic::catch_unwind(|| {
        let with = execute::with::<NoCache>().name("panics");
        with.range(0..40, 32, |start, _| assert!(start > 0, "{OUT_OF_MEMORY}"));
    });
    assert_eq!(panicked.unwrap_err().downcast_ref::<String>().map(String::as_str), Some(OUT_OF_MEMORY));
    let mut pieces = Vec::new();
    execute::range(0..40, 32, |start, end| pieces.push((start, end)));
    assert_eq!(pieces, [(0, 32), (32, 40)]);
}

#[cfg(feature = "testing")]
#[test]
fn injected_with_certainty_every_attempt_above_the_floor_fails() {
    let test = "adversity::environment::injected_with_certainty_every_attempt_above_the_floor_fails";
    // With this seed the failures injected after the body would duplicate the elements that it appends.
    let Some(ended) = child::run(test, &[("TOMA_INJECT", "1,7")]) else {
        let mut tried = Vec::new();
        execute::with::<NoCache>().range(0..3, 4, |start, end| tried.push((start, end)));
        tried.dedup();
        assert_eq!(tried[tried.len() - 3..], [(0, 1), (1, 2), (2, 3)]);
        let report = toma::report::last().unwrap();
        assert_eq!((report.attempts, report.out_of_memory), (4, 1));
        return;
    };
    assert_eq!(ended.passed(), ["toma: injecting out of memory: TOMA_INJECT=1,7"]);
}
