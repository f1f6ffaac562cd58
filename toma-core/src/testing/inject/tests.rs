use std::cell::Cell;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Output};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;

use super::environment::Settings;
use super::generator::Generator;
use super::*;
use crate::NoCache;
use crate::classify::{Class, classify_panic};
use crate::{execute, report};

/// Only with this variable set do the tests below do the work of a child process.
const CHILD: &str = "TOMA_TEST_CHILD";

fn verdicts(sizes: impl IntoIterator<Item = usize>) -> Vec<Verdict> {
    sizes.into_iter().map(|size| Verdict(verdict(size))).collect()
}

#[test]
fn script_is_consumed_one_verdict_an_attempt_and_then_passes() {
    let all = [
        Verdict::PASS,
        Verdict::OUT_OF_MEMORY,
        Verdict::TRANSIENT.after_body(),
        Verdict::POISONED,
        Verdict::OTHER.requesting(9),
    ];
    let scope = script(all);
    assert_eq!(verdicts([1; 5]), all);
    assert_eq!(verdicts([1; 3]), [Verdict::PASS; 3]);
    assert_eq!((scope.attempts(), scope.failures()), (8, 4));
    assert_eq!(format!("{scope:?}"), "Injection { attempts: 8, failures: 4 }");
}

#[test]
fn script_whose_iterator_goes_on_after_its_end() {
    let mut calls = 0;
    let scope = script(std::iter::from_fn(move || {
        calls += 1;
        (calls % 2 == 0).then_some(Verdict::OTHER)
    }));
    assert_eq!(verdicts([1; 4]), [Verdict::PASS; 4]);
    drop(scope);
}

#[test]
fn an_injected_failure_has_its_class() {
    for (verdict, class) in [
        (Verdict::OUT_OF_MEMORY.requesting(7), Class::OutOfMemory),
        (Verdict::TRANSIENT, Class::Transient),
        (Verdict::POISONED, Class::Poisoned),
        (Verdict::OTHER, Class::Other),
    ] {
        for verdict in [verdict, verdict.after_body()] {
            let injected = verdict.0.unwrap();
            let mut ran = false;
            let run = AssertUnwindSafe(|| injected.around(|| ran = true));
            let payload = catch_unwind(run).unwrap_err();
            let failure = classify_panic(payload.as_ref());
            assert_eq!(failure.class, class, "{failure:?}");
            assert_eq!(failure.requested_bytes, injected.requested_bytes);
            assert_eq!(ran, injected.after_body);
        }
    }
    assert_eq!(Verdict::PASS.after_body().requesting(7), Verdict::PASS);
}

#[test]
fn a_loop_meets_its_script_and_gets_everything_done() {
    let script =
        [Verdict::PASS, Verdict::OUT_OF_MEMORY, Verdict::TRANSIENT, Verdict::OUT_OF_MEMORY.after_body()];
    let scope = super::script(script);
    let (mut done, mut runs) = (Vec::new(), 0);
    execute::with::<NoCache>().range(0..32, 8, |start, end| {
        runs += 1;
        done.retain(|&item| item < start);
        done.extend(start..end);
    });
    assert_eq!(done, (0..32).collect::<Vec<_>>());
    assert_eq!((scope.failures(), report::last().unwrap().out_of_memory), (3, 2));
    // One run failed after the body, two failed instead of it.
    assert_eq!(report::last().unwrap().attempts, runs + 2);
}

#[test]
fn by_size() {
    let scope = above(64);
    assert_eq!(verdicts([64, 65, 0]), [Verdict::PASS, Verdict::OUT_OF_MEMORY, Verdict::PASS]);
    drop(scope);
    let scope = above(3).after_body();
    let failed = Verdict::OUT_OF_MEMORY.after_body();
    assert_eq!(verdicts([4, 3, 6]), [failed, Verdict::PASS, failed]);
    assert_eq!((scope.attempts(), scope.failures()), (3, 2));
}

#[test]
fn newest_scope_decides_whatever_order_they_end_in() {
    let outer = script([Verdict::OTHER; 9]);
    let middle = script([Verdict::POISONED; 9]);
    let inner = script([Verdict::TRANSIENT; 9]);
    assert_eq!(verdicts([1]), [Verdict::TRANSIENT]);
    drop(middle);
    assert_eq!(verdicts([1]), [Verdict::TRANSIENT]);
    drop(inner);
    assert_eq!(verdicts([1]), [Verdict::OTHER]);
    assert_eq!(outer.attempts(), 1);
}

#[test]
fn scope_is_of_its_thread() {
    let scope = above(0);
    let other = thread::spawn(|| {
        let own = script([Verdict::OTHER]);
        (verdicts([5, 5]), own.attempts())
    });
    assert_eq!(other.join().unwrap(), (vec![Verdict::OTHER, Verdict::PASS], 2));
    assert_eq!(scope.attempts(), 0);
}

#[test]
fn rule_that_makes_attempts_of_its_own() {
    let inner = Rc::new(Cell::new(None));
    let seen = Rc::clone(&inner);
    let scope = script(std::iter::from_fn(move || {
        seen.set(verdict(1));
        Some(Verdict::OUT_OF_MEMORY)
    }));
    assert_eq!(verdicts([5]), [Verdict::OUT_OF_MEMORY]);
    assert_eq!(inner.get(), None);
    assert_eq!(scope.attempts(), 1);
}

#[test]
fn rule_that_panics_can_be_asked_again() {
    let mut calls = 0;
    let scope = script(std::iter::from_fn(move || {
        calls += 1;
        assert!(calls > 1, "no verdict");
        Some(Verdict::OUT_OF_MEMORY)
    }));
    let result = std::panic::catch_unwind(|| verdict(1));
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&"no verdict"));
    assert_eq!(verdicts([1]), [Verdict::OUT_OF_MEMORY]);
    assert_eq!((scope.attempts(), scope.failures()), (2, 1));
}

#[test]
fn verdict_and_scope_at_the_end_of_a_thread() {
    struct AtExit(Cell<Option<(mpsc::Sender<usize>, Injection)>>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            let (sender, scope) = self.0.take().unwrap();
            verdict(1);
            sender.send(scope.attempts()).unwrap();
        }
    }
    thread_local!(static LATE: AtExit = const { AtExit(Cell::new(None)) });
    let (sender, receiver) = mpsc::channel();
    for scopes_first in [true, false] {
        let sender = sender.clone();
        let work = move || {
            if scopes_first {
                drop(script([]));
            }
            LATE.with(|late| late.0.set(None));
            LATE.with(|late| late.0.set(Some((sender, above(0)))));
        };
        thread::spawn(work).join().unwrap();
    }
    drop(sender);
    // One of the two orders of destruction leaves the scope reachable.
    let mut attempts: Vec<_> = receiver.iter().collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [0, 1]);
}

#[test]
fn seed_replays_and_another_seed_does_not() {
    let run = |seed| {
        let _scope = random(seed, 0.5);
        verdicts(1..200)
    };
    assert_eq!(run(42), run(42));
    assert_ne!(run(42), run(43));
    // Recorded once, so that a seed stays valid in later versions.
    let noted: String = run(42).iter().take(24).map(letter).collect();
    assert_eq!(noted, ".bb.aab...bb..a.b.......");
}

/// `.` for an attempt that passes, `b` and `a` for a failure before and after the body.
fn letter(verdict: &Verdict) -> char {
    match verdict.0.map(|injected| injected.after_body) {
        None => '.',
        Some(false) => 'b',
        Some(true) => 'a',
    }
}

#[test]
fn probabilities_are_kept() {
    for (probability, low, high) in [(0.0, 0, 0), (0.2, 1800, 2200), (1.0, 10_000, 10_000)] {
        let scope = random(7, probability);
        let failed = verdicts(0..10_000);
        assert!((low..=high).contains(&scope.failures()), "{probability}: {scope:?}");
        assert_eq!(failed.iter().filter(|verdict| **verdict != Verdict::PASS).count(), scope.failures());
        let after = failed.iter().filter(|verdict| letter(verdict) == 'a').count();
        assert!(after * 10 >= scope.failures() * 4 && after * 10 <= scope.failures() * 6, "{after}");
    }
}

#[test]
fn probability_out_of_range_is_named() {
    for (probability, text) in [(1.5, "1.5"), (-0.1, "-0.1"), (f64::NAN, "NaN")] {
        let payload = std::panic::catch_unwind(|| random(1, probability)).unwrap_err();
        let expected = format!("probability {text}: must be from 0 to 1");
        assert_eq!(payload.downcast_ref::<String>(), Some(&expected));
    }
}

#[test]
fn threads_of_all_names_and_counts_have_streams_of_their_own() {
    let streams = ["", "a", "b", "main"]
        .into_iter()
        .flat_map(|name| [(name, 1), (name, 2)])
        .map(|(name, count)| Generator::derived(42, name, count).next());
    let distinct: std::collections::BTreeSet<_> = streams.collect();
    assert_eq!(distinct.len(), 8);
}

#[test]
fn malformed_values_are_named() {
    for value in ["x", "0.2,", "0.2;5", ",5", "1.01", "-0.5", "NaN", "inf", "0.2,-1", "0.2,5,6", "20%", " "] {
        let payload = std::panic::catch_unwind(|| Settings::parse(value)).expect_err(value);
        let expected =
            format!("TOMA_INJECT={value}: must be a probability from 0 to 1, or one and a seed: `0.2,42`");
        assert_eq!(payload.downcast_ref::<String>(), Some(&expected));
    }
    assert_eq!(Settings::parse(""), None);
    assert_eq!(Settings::parse("0.5,7"), Settings::parse(" 0.5 , 7 "));
    assert!(Settings::parse("1,18446744073709551615").is_some());
}

/// Runs the test `name` of this file alone in a process of its own.
fn child(name: &str, inject: Option<&str>) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    let name = format!("testing::inject::tests::{name}");
    command.args(["--exact", &name, "--nocapture", "--test-threads=2"]).env(CHILD, "1");
    match inject {
        Some(value) => command.env("TOMA_INJECT", value),
        None => command.env_remove("TOMA_INJECT"),
    };
    command.output().unwrap()
}

fn lines<'a>(text: &'a [u8], start: &str) -> Vec<&'a str> {
    let text = std::str::from_utf8(text).unwrap();
    text.lines().filter(|line| line.starts_with(start)).collect()
}

/// As a child: prints the verdicts of threads with several names, and shows that scopes override them.
#[test]
fn work_under_the_environment() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    for name in ["pool", "pool", "other"] {
        let work = move || {
            let letters: String = verdicts([8; 40]).iter().map(letter).collect();
            println!("stream {name} {letters}");
        };
        thread::Builder::new().name(name.into()).spawn(work).unwrap().join().unwrap();
    }
    let _scope = script([]);
    assert_eq!(verdicts([1; 100]), [Verdict::PASS; 100]);
}

#[test]
fn environment_injects_everywhere_and_the_printed_line_replays_it() {
    let first = child("work_under_the_environment", Some("0.5"));
    assert!(first.status.success(), "{first:?}");
    let printed = lines(&first.stderr, "toma: injecting out of memory: TOMA_INJECT=0.5,");
    assert_eq!(printed.len(), 1, "{first:?}");
    let streams = lines(&first.stdout, "stream ");
    let letters = |stream: &str| stream.rsplit(' ').next().unwrap().to_owned();
    let [one, two, three] = [0, 1, 2].map(|index| letters(streams[index]));
    assert!(one != two && two != three && one != three, "{streams:?}");
    assert!(one.contains('a') && one.contains('b') && one.contains('.'), "{one}");

    let replay = child("work_under_the_environment", Some(printed[0].split_once('=').unwrap().1));
    assert_eq!(lines(&replay.stdout, "stream "), streams);
    assert_eq!(lines(&replay.stderr, "toma: "), printed);
    let another = child("work_under_the_environment", Some("0.5"));
    assert_ne!(lines(&another.stdout, "stream "), streams, "the seed was not random");
}

/// As a child: no injection is active, and after the first verdict no attempt need ask again.
#[test]
fn work_without_the_environment() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    assert!(active(), "the environment has not been read yet");
    assert_eq!(verdict(1), None);
    assert!(!active());
    let scopes = (above(1), above(2));
    assert!(active());
    drop(scopes.0);
    assert!(active());
    drop(scopes.1);
    assert!(!active());
    println!("all asserted");
}

#[test]
fn nothing_is_active_without_the_environment() {
    for value in [None, Some("")] {
        let output = child("work_without_the_environment", value);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(lines(&output.stdout, "all asserted").len(), 1);
        assert_eq!(lines(&output.stderr, "toma: "), [""; 0]);
    }
}

#[test]
fn malformed_environment_fails_the_test_that_meets_it() {
    let output = child("work_under_the_environment", Some("often"));
    assert!(!output.status.success());
    let text = "TOMA_INJECT=often: must be a probability from 0 to 1, or one and a seed: `0.2,42`";
    assert!(!lines(&output.stderr, text).is_empty(), "{output:?}");
}
