//! Policies that return nonsense.

use std::panic::{AssertUnwindSafe, catch_unwind};

use toma::classify::OutOfMemory;
use toma::policy::{Evidence, Policy};
use toma::{GlobalCache, NoCache, execute};

use crate::executor::block_on;
use crate::kit::{OUT_OF_MEMORY, fits, panic_of};

/// A policy that always returns the same step, after a failure and after a success.
#[derive(Clone, Copy, Debug)]
struct Answers {
    shrink: usize,
    advance: usize,
}

impl Policy for Answers {
    fn shrink(&self, _: &Evidence) -> usize {
        self.shrink
    }

    fn advance(&self, _: &Evidence) -> usize {
        self.advance
    }
}

mod annotated {
    use super::*;

    pub(super) const GROWS: Answers = Answers { shrink: 9, advance: 8 };

    #[toma::batch(initial = 8, cache = NoCache, policy = GROWS)]
    pub(super) fn batch(size: usize) {
        assert!(size == 0, "{OUT_OF_MEMORY}");
    }

    #[toma::range(initial = 8, cache = NoCache, policy = GROWS)]
    pub(super) async fn range(start: usize, end: usize) -> Result<(), OutOfMemory> {
        if start < end { Err(OutOfMemory::new(None)) } else { Ok(()) }
    }
}

#[test]
fn in_every_form_the_call_is_named() {
    let with = || execute::with::<NoCache>().policy(annotated::GROWS);
    let fails = |_, _| Err::<(), _>(OutOfMemory::new(None));
    let inline: [&mut dyn FnMut(); 7] = [
        &mut || with().batch(8, |size| assert!(size == 0, "{OUT_OF_MEMORY}")),
        &mut || _ = with().range(0..8, 8, fails),
        &mut || _ = with().chunked(&[0; 8][..], 8, |_, start, end| fails(start, end)),
        &mut || _ = with().map(0..8, 8, fails),
        &mut || _ = with().fold(0..8, 8, (), |(), start, end| fails(start, end)),
        &mut || _ = with().iter(0..8, 8, fails).next(),
        &mut || _ = block_on(with().stream(0..8, 8, async |start, end| fails(start, end)).next()),
    ];
    let end = ": policy Answers { shrink: 9, advance: 8 }: answered 9 after a failure at 8: must be smaller";
    for call in inline {
        let text = panic_of(call);
        assert!(text.starts_with("tests/devices/adversity/policies.rs:") && text.ends_with(end), "{text}");
    }
    let text = panic_of(annotated::batch);
    assert!(text.ends_with(&format!("policies::annotated::batch{end}")), "{text}");
    let text = panic_of(|| _ = block_on(annotated::range(0, 8)));
    assert!(text.ends_with(&format!("policies::annotated::range{end}")), "{text}");
}

#[derive(Debug)]
struct Panics(&'static str);

impl Policy for Panics {
    fn shrink(&self, _: &Evidence) -> usize {
        assert!(self.0 != "shrink", "no idea how to shrink");
        1
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        assert!(self.0 != "advance" || evidence.remaining > 8, "no idea how to advance");
        evidence.step
    }
}

#[test]
fn a_policy_that_panics_ends_the_call_with_its_panic() {
    for (when, limit) in [("shrink", 4), ("advance", 8)] {
        let mut tried = Vec::new();
        let panic = panic_of(|| {
            execute::with::<NoCache>().policy(Panics(when)).range(0..16, 8, |start, end| {
                tried.push(end - start);
                fits(end - start, limit)
            })
        });
        assert_eq!((panic, tried), (format!("no idea how to {when}"), vec![8]));
    }
}

#[test]
fn a_size_that_failed_when_the_policy_panicked_is_not_remembered() {
    let sizes = GlobalCache::new();
    let call = AssertUnwindSafe(|| {
        let with = execute::with::<NoCache>().cache(&sizes).policy(Once::default());
        with.range(0..64, 16, |start, end| {
            if start >= 8 || end - start > 8 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        })
    });
    let panic = catch_unwind(call).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"shrinks once only"));
    assert!(sizes.entries().is_empty(), "{:?}", sizes.entries());
}

/// Halves the step once.
#[derive(Debug, Default)]
struct Once(std::cell::Cell<bool>);

impl Policy for Once {
    fn shrink(&self, evidence: &Evidence) -> usize {
        assert!(!self.0.replace(true), "shrinks once only");
        evidence.size / 2
    }
}
