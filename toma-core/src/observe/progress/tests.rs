use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use indicatif::{InMemoryTerm, ProgressDrawTarget};

use super::screen::Screen;
use super::{ProgressBar, RefreshPace};
use crate::NoCache;
use crate::classify::{Class, OutOfMemory};
use crate::execute;
use crate::observe::{Answer, Event, EventKind, Observer, everywhere};

/// Everything is shown at once, so that nothing depends on the clock.
const AT_ONCE: RefreshPace = RefreshPace { draw: Duration::ZERO, log: Duration::ZERO, quick: Duration::ZERO };
const PATIENT: RefreshPace = RefreshPace { log: Duration::from_secs(3600), ..AT_ONCE };

fn on_terminal(columns: u16, pace: RefreshPace) -> (ProgressBar, InMemoryTerm) {
    let terminal = InMemoryTerm::new(20, columns);
    let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
    (ProgressBar::on(Screen::to(target, io::sink()), pace), terminal)
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn into_log(pace: RefreshPace) -> (ProgressBar, Log) {
    let log = Log::default();
    (ProgressBar::on(Screen::to(ProgressDrawTarget::hidden(), log.clone()), pace), log)
}

fn notify(bar: &ProgressBar, call: u64, kind: EventKind<'_>) {
    bar.observe(&Event { call, name: "demo::embed", kind });
}

fn started(start: usize, length: Option<usize>) -> EventKind<'static> {
    EventKind::Started { initial: start, start, length, remembered: None }
}

fn succeeded(start: usize, end: usize, seconds: u64) -> EventKind<'static> {
    EventKind::Succeeded { start, end, elapsed: Duration::from_secs(seconds) }
}

fn failed(start: usize, end: usize) -> EventKind<'static> {
    EventKind::Failed {
        start,
        size: end - start,
        end,
        class: Class::OutOfMemory,
        requested_bytes: Some(2 << 30),
        free_bytes: Some(1 << 30),
        message: "out of memory",
        filled: Some("conv at net.rs:7\nheld by x"),
        elapsed: None,
    }
}

fn shrinks(size: usize, to: usize) -> EventKind<'static> {
    EventKind::Answered { size, answer: Answer::Shrink(to) }
}

const FINISHED: EventKind<'_> = EventKind::Finished { attempts: 1, out_of_memory: 0 };

#[test]
fn a_bar_shows_items_rate_time_left_step_and_failures() {
    let (bar, terminal) = on_terminal(80, AT_ONCE);
    notify(&bar, 1, started(20_000, Some(20_000)));
    notify(&bar, 1, EventKind::Attempt { start: 0, end: 20_000 });
    assert!(terminal.contents().ends_with("0/20000 · step 20000"), "{}", terminal.contents());

    notify(&bar, 1, failed(0, 20_000));
    notify(&bar, 1, shrinks(20_000, 10_000));
    notify(&bar, 1, succeeded(0, 10_000, 5));
    let shown = terminal.contents();
    // The note is longer than this terminal is wide.
    let [begin, end, line] = shown.lines().collect::<Vec<_>>()[..] else { panic!("{shown}") };
    assert_eq!(
        format!("{begin}{end}"),
        "toma: embed: out of memory (2.0 GiB requested, 1.0 GiB free) at 20000, shrinks to 10000"
    );
    assert!(line.contains("embed █"), "{shown}");
    assert!(line.ends_with("10000/20000 · 2000/s · ETA 5s · step 10000 · 1 OOM"), "{shown}");
    assert!(line.chars().count() <= 80, "{shown}");
}

#[test]
fn the_bar_goes_and_the_shrinks_stay() {
    let (bar, terminal) = on_terminal(120, AT_ONCE);
    let limit = |start, end| if end - start > 300 { Err(OutOfMemory::new(None)) } else { Ok(()) };
    execute::with::<NoCache>().observer(&bar).name("limit").range(0..1000, 1000, limit).unwrap();
    let shown = terminal.contents();
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(lines[0].ends_with("at 1000, shrinks to 500"), "{shown}");
    assert!(lines[1].ends_with("at 500, shrinks to 250"), "{shown}");
}

#[test]
fn calls_one_after_another_share_a_bar_and_what_is_printed_between_them_stays() {
    let (bar, terminal) = on_terminal(80, AT_ONCE);
    for pass in 1..=2 {
        notify(&bar, pass, started(10, Some(100)));
        notify(&bar, pass, succeeded(0, 10, 1));
        assert!(terminal.contents().lines().last().unwrap().contains("10/100"), "{}", terminal.contents());
        bar.println(format!("pass {pass} goes well"));
        notify(&bar, pass, FINISHED);
        indicatif::TermLike::write_line(&terminal, "printed by the program").unwrap();
    }
    let pass = |n| format!("pass {n} goes well\nprinted by the program");
    assert_eq!(terminal.contents(), format!("{}\n{}", pass(1), pass(2)));
}

#[test]
fn nested_calls_have_a_line_each() {
    let (bar, terminal) = on_terminal(80, AT_ONCE);
    let mut shown = String::new();
    execute::with::<NoCache>().observer(&bar).name("outer").range(0..2, 1, |_, _| {
        execute::with::<NoCache>().observer(&bar).name("inner").range(0..4, 1, |start, _| {
            if start == 3 {
                shown = terminal.contents();
            }
        });
    });
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(lines[0].starts_with("outer") && lines[0].contains(" 1/2 "), "{shown}");
    assert!(lines[1].starts_with("inner") && lines[1].contains(" 3/4 "), "{shown}");
    assert_eq!(terminal.contents(), "");
}

#[test]
fn a_fallback_is_printed_and_the_call_goes_on_with_another_step() {
    let (bar, terminal) = on_terminal(120, AT_ONCE);
    notify(&bar, 1, started(1, Some(8)));
    notify(&bar, 1, failed(0, 1));
    notify(&bar, 1, EventKind::Answered { size: 1, answer: Answer::FallBack(4) });
    notify(&bar, 1, succeeded(0, 4, 1));
    let shown = terminal.contents();
    assert!(shown.contains("1.0 GiB free) at 1, falls back, from 4"), "{shown}");
    assert!(shown.lines().last().unwrap().ends_with("step 4 · 1 OOM"), "{shown}");
    notify(&bar, 1, EventKind::Answered { size: 90, answer: Answer::LeaveOut { index: 7, cost: 90 } });
    assert!(terminal.contents().contains("at 90, leaves out item 7, which costs 90"), "{shown}");
}

#[test]
fn a_batch_has_no_length() {
    let (bar, terminal) = on_terminal(100, AT_ONCE);
    notify(&bar, 1, started(512, None));
    notify(&bar, 1, failed(0, 512));
    notify(&bar, 1, shrinks(512, 256));
    let shown = terminal.contents();
    assert!(shown.contains("at 512, shrinks to 256"), "{shown}");
    assert_eq!(shown.lines().last(), Some("embed batch size 256 · 1 OOM"));
    notify(&bar, 1, succeeded(0, 256, 3));
    assert_eq!(terminal.contents().lines().last(), Some("embed batch size 256 · 1 OOM"));
}

#[test]
fn calls_that_need_no_line_leave_none() {
    let (bar, terminal) = on_terminal(120, AT_ONCE);
    let with = || execute::with::<NoCache>().observer(&bar);
    with().range(5..5, 8, |_, _| ());
    assert_eq!(terminal.moves_since_last_check(), "", "an empty range");
    let panics = || with().range(0..8, 8, |_, _| -> () { panic!("broken") });
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(terminal.contents(), "", "a panic ends the bar");
    assert!(with().range(0..8, 8, |_, _| Err::<(), _>(io::Error::other("disk is on fire"))).is_err());
    assert_eq!(terminal.contents(), "", "an error of another kind is left to its reader");
    thread::scope(|scope| {
        for length in [100, 200] {
            let with = &with;
            scope.spawn(move || with().range(0..length, 1, |_, _| ()));
        }
    });
    for kind in [succeeded(0, 1, 1), failed(1, 2), FINISHED] {
        notify(&bar, 7, kind);
    }
    assert_eq!(terminal.contents(), "", "calls that began unseen are passed over");
    let (bar, log) = into_log(AT_ONCE);
    execute::with::<NoCache>().observer(&bar).range(5..5, 8, |_, _| ());
    assert_eq!(log.lines(), [""; 0]);
}

#[test]
fn giving_up_prints_the_reason() {
    let (bar, terminal) = on_terminal(120, AT_ONCE);
    let body = |_, _| Err::<(), _>(OutOfMemory::new(None));
    let result = execute::with::<NoCache>().observer(&bar).name("f").range(0..8, 1, body);
    assert!(result.is_err());
    let shown = terminal.contents();
    assert!(shown.starts_with("toma: f: out of memory"), "{shown}");
    assert!(shown.ends_with("at 1, gives up: no smaller size is allowed"), "{shown}");
}

#[test]
fn a_log_gets_a_line_for_each_shrink_and_nothing_for_short_calls() {
    let (bar, log) = into_log(PATIENT);
    let limit = |start, end| if end - start > 300 { Err(OutOfMemory::new(None)) } else { Ok(()) };
    execute::with::<NoCache>().observer(&bar).name("limit").range(0..1000, 600, limit).unwrap();
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("toma: limit: out of memory"), "{lines:?}");
    assert!(lines[0].ends_with("at 600, shrinks to 300"), "{lines:?}");
}

#[test]
fn a_log_of_a_long_call_shows_how_it_goes_on_and_its_end() {
    let (bar, log) = into_log(AT_ONCE);
    notify(&bar, 1, started(50, Some(100)));
    notify(&bar, 1, succeeded(0, 50, 10));
    notify(&bar, 1, succeeded(50, 100, 10));
    notify(&bar, 1, FINISHED);
    let half = "toma: embed: 50 of 100 · 5.0/s · ETA 10s · step 50";
    let done = "toma: embed: 100 of 100 · 5.0/s · step 50";
    assert_eq!(log.lines(), [half, done, done]);
}

#[test]
fn a_call_right_after_a_quick_one_must_last_to_be_shown() {
    let pace = RefreshPace { quick: Duration::from_secs(3600), ..AT_ONCE };
    let (bar, terminal) = on_terminal(80, pace);
    for (call, is_shown) in [(1, true), (2, false)] {
        notify(&bar, call, started(1, Some(9)));
        notify(&bar, call, succeeded(0, 1, 0));
        assert_eq!(!terminal.contents().is_empty(), is_shown, "call {call}");
        notify(&bar, call, FINISHED);
    }
}

#[test]
fn beside_the_log_only_what_the_program_prints_is_shown() {
    let (bar, log) = into_log(AT_ONCE);
    let bar = ProgressBar { beside_log: true, ..bar };
    notify(&bar, 1, started(8, Some(8)));
    notify(&bar, 1, failed(0, 8));
    notify(&bar, 1, shrinks(8, 4));
    bar.println("a line of the program's own");
    assert_eq!(log.lines(), ["a line of the program's own"]);
}

#[test]
fn a_long_name_leaves_room_for_the_bar() {
    let (bar, terminal) = on_terminal(80, AT_ONCE);
    let name = "ünïcödé".repeat(30);
    let kind = started(usize::MAX, Some(usize::MAX));
    bar.observe(&Event { call: 1, name: &name, kind });
    bar.observe(&Event { call: 1, name: &name, kind: EventKind::Attempt { start: 0, end: 9 } });
    assert!(terminal.contents().contains("… "), "{}", terminal.contents());
}

#[test]
fn every_call_of_the_program_can_have_a_bar() {
    let (bar, log) = into_log(AT_ONCE);
    let guard = everywhere(bar);
    execute::with::<NoCache>().name("seen everywhere").range(0..4, 4, |_, _| ());
    drop(guard);
    assert!(log.lines().iter().any(|line| line.contains("seen everywhere: 4 of 4")), "{:?}", log.lines());
}
