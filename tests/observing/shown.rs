//! Reports as people read them.

use std::sync::PoisonError;

use expect_test::{Expect, expect};
use toma::classify::OutOfMemory;
use toma::{NoCache, execute, report};

use crate::PROCESS;
use crate::world::{FINE, OTHER, OUT_OF_MEMORY, POISONED, TRANSIENT_SMALL, World, inline};

/// Compares the last report, its times left out.
fn shows(expected: &Expect) {
    let text = report::last().unwrap().to_string();
    let lines = text.lines().map(|line| match line.split_once("failed attempts: ") {
        None => line.to_owned(),
        Some((before, time)) => {
            if time == "not measured without an observer" {
                return line.to_owned();
            }
            let bound = if time.starts_with("at least ") { "at least " } else { "" };
            let time = time.trim_start_matches("at least ");
            assert!(time.starts_with(|c: char| c.is_ascii_digit()) && time.ends_with('s'), "{line}");
            format!("{before}failed attempts: {bound}TIME")
        }
    });
    expected.assert_eq(&lines.map(|line| line + "\n").collect::<String>());
}

#[test]
fn success() {
    inline(&World::new([]), 20).unwrap();
    shows(&expect![[r#"
        work: 20 of 20 items in 3 attempts, never out of memory
          started at 8, nothing remembered
          nothing new to remember
    "#]]);
}

#[test]
fn one_item() {
    inline(&World::new([]), 1).unwrap();
    shows(&expect![[r#"
        work: 1 of 1 item in 1 attempt, never out of memory
          started at 1, nothing remembered
          nothing new to remember
    "#]]);
}

#[test]
fn shrinks() {
    inline(&World::new([FINE, OUT_OF_MEMORY, FINE, OUT_OF_MEMORY, TRANSIENT_SMALL]), 20).unwrap();
    shows(&expect![[r#"
        work: 20 of 20 items in 9 attempts, 2 out of memory
          started at 8, nothing remembered
          sizes tried: 8 (worked 1 time) (out of memory), 4 (worked 1 time) (out of memory), 2 (transient failure), 2 (worked 4 times)
          time lost to failed attempts: TIME
          remembered for the next call: 2
    "#]]);
}

#[test]
fn shrinks_nobody_observed() {
    let _unobserved = PROCESS.read().unwrap_or_else(PoisonError::into_inner);
    let body = |start, end| if end - start > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) };
    execute::with::<NoCache>().name("work").range(0..8, 8, body).unwrap();
    shows(&expect![[r#"
        work: 8 of 8 items in 3 attempts, 1 out of memory
          started at 8, nothing remembered
          sizes tried: 8 (out of memory), 4 (worked 2 times)
          time lost to failed attempts: not measured without an observer
          nothing new to remember
    "#]]);
}

#[test]
fn gave_up_at_the_floor() {
    let mut world = World::new([OUT_OF_MEMORY; 2]);
    world.min = 4;
    inline(&world, 12).unwrap_err();
    shows(&expect![[r#"
        work: 0 of 12 items in 2 attempts, 2 out of memory
          started at 8, nothing remembered
          sizes tried: 8 (out of memory), 4 (out of memory)
          time lost to failed attempts: TIME
          gave up: no smaller size is allowed: does not fit at size 4: needs 4.0 KiB, 512 bytes free
    "#]]);
}

#[test]
fn gave_up_after_another_failure() {
    inline(&World::new([FINE, OTHER]), 20).unwrap_err();
    shows(&expect![[r#"
        work: 8 of 20 items in 2 attempts, never out of memory
          started at 8, nothing remembered
          sizes tried: 8 (worked 1 time) (other failure)
          gave up: not out of memory
    "#]]);
}

#[test]
fn gave_up_a_poisoned_device() {
    inline(&World::new([POISONED]), 20).unwrap_err();
    shows(&expect![[r#"
        work: 0 of 20 items in 1 attempt, never out of memory
          started at 8, nothing remembered
          sizes tried: 8 (device context poisoned)
          gave up: the device context is poisoned
    "#]]);
}

#[test]
fn batch() {
    World::new([OUT_OF_MEMORY]).batch().unwrap();
    shows(&expect![[r#"
        work: 2 attempts, 1 out of memory
          started at 8, nothing remembered
          sizes tried: 8 (out of memory), 4 (worked 1 time)
          time lost to failed attempts: TIME
          remembered for the next call: 4
    "#]]);
}

#[test]
fn second_call() {
    let world = World::new([OUT_OF_MEMORY]);
    inline(&world, 8).unwrap();
    inline(&world, 8).unwrap();
    shows(&expect![[r#"
        work: 8 of 8 items in 2 attempts, never out of memory
          started at 4, remembered 4 from an earlier call
          nothing new to remember
    "#]]);
}

#[test]
fn second_call_that_shrinks_further() {
    let world = World::new([OUT_OF_MEMORY]);
    inline(&world, 8).unwrap();
    world.follow([OUT_OF_MEMORY]);
    inline(&world, 8).unwrap();
    shows(&expect![[r#"
        work: 8 of 8 items in 5 attempts, 1 out of memory
          started at 4, remembered 4 from an earlier call
          sizes tried: 4 (out of memory), 2 (worked 4 times)
          time lost to failed attempts: TIME
          remembered for the next call: 2
    "#]]);
}
