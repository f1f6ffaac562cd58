//! Traces of different steps, and traces whose rows are coupled.

use toma_plan::Growth;
use toma_trace::{Label, Place, Recorder, ScopeKind, Trace};

use crate::{MAIN, gpu};

/// A call that makes blocks that outlive it.
type Call<'a> = (&'a str, &'a [u64]);

fn trace(calls: &[Call<'_>]) -> Trace {
    let mut recorder = Recorder::new();
    for (name, blocks) in calls {
        let operator = recorder.begin_operator(MAIN, name);
        for bytes in *blocks {
            recorder.birth(MAIN, &gpu(), *bytes).unwrap();
        }
        recorder.end_operator(operator).unwrap();
    }
    recorder.finish()
}

/// Blocks that are made before and after an operator.
fn outside(before: usize, after: usize, freed: usize) -> Trace {
    let mut recorder = Recorder::new();
    let make = |recorder: &mut Recorder, count| {
        for _ in 0..count {
            recorder.birth(MAIN, &Place::HOST, 1).unwrap();
        }
    };
    make(&mut recorder, before);
    let operator = recorder.begin_operator(MAIN, "aten::mm");
    recorder.end_operator(operator).unwrap();
    make(&mut recorder, after);
    for _ in 0..freed {
        let storage = recorder.existing(&gpu(), 1).unwrap();
        recorder.death(MAIN, storage).unwrap();
    }
    recorder.finish()
}

#[test]
fn the_first_difference_is_named() {
    let mm = trace(&[("aten::mm", &[8])]);
    for (first, second, message) in [
        (&mm, trace(&[("aten::bmm", &[8])]), "operator 0 is `aten::mm` at size 4, but `aten::bmm` at size 8"),
        (
            &mm,
            trace(&[("aten::mm", &[8]), ("aten::add", &[])]),
            "operator 1 is missing at size 4, but `aten::add` at size 8",
        ),
        (
            &trace(&[("aten::mm", &[8]), ("aten::add", &[])]),
            mm.clone(),
            "operator 1 is `aten::add` at size 4, but missing at size 8",
        ),
        (
            &mm,
            trace(&[("aten::mm", &[8, 8])]),
            "operator 0 `aten::mm` makes 1 blocks in cuda:0 at size 4, but 2 at size 8",
        ),
        (
            &trace(&[("aten::mm", &[8, 8])]),
            mm.clone(),
            "operator 0 `aten::mm` makes 2 blocks in cuda:0 at size 4, but 1 at size 8",
        ),
        (
            &outside(1, 1, 0),
            outside(2, 1, 0),
            "before the first operator there are 1 blocks in host at size 4, but 2 at size 8",
        ),
        (
            &outside(1, 1, 0),
            outside(1, 3, 0),
            "after 1 operators there are 1 blocks in host at size 4, but 3 at size 8",
        ),
        (
            &outside(0, 0, 2),
            outside(0, 0, 1),
            "there were, and were given back, 2 blocks in cuda:0 at size 4, but 1 at size 8",
        ),
    ] {
        // The order in which they are given does not matter.
        for traces in [[(4, first), (8, &second)], [(8, &second), (4, first)]] {
            assert_eq!(Growth::fit(&traces).unwrap_err().to_string(), message);
        }
    }
}

#[test]
fn a_line_takes_two_sizes() {
    let trace = trace(&[]);
    for (sizes, message) in [
        (&[][..], "0 traces: at least two are compared"),
        (&[4], "1 traces: at least two are compared"),
        (&[0, 4], "size 0: must be at least 1, and of one trace only"),
        (&[8, 4, 8], "size 8: must be at least 1, and of one trace only"),
    ] {
        let traces: Vec<_> = sizes.iter().map(|size| (*size, &trace)).collect();
        assert_eq!(Growth::fit(&traces).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_step_that_makes_nothing_needs_nothing() {
    let trace = trace(&[("aten::t", &[])]);
    let growth = Growth::fit(&[(4, &trace), (8, &trace)]).unwrap();
    assert_eq!(growth.needs_bytes_for(&gpu(), 100, 10_000), 0);
    assert_eq!(growth.places().count(), 0);
    assert_eq!(growth.highest(&gpu(), 100, 1).bytes, 0);
}

#[test]
fn a_block_off_its_line_takes_the_steepest() {
    let at = |bytes| trace(&[("aten::convolution", &[bytes])]);
    let growth = Growth::fit(&[(4, &at(512)), (8, &at(512)), (12, &at(1024))]).unwrap();
    let needs = |size| growth.needs_bytes(&gpu(), size);
    assert_eq!([needs(4), needs(8), needs(12), needs(16)], [512, 1024, 1536, 2048]);
}

/// A block that stays, and scratch that a kernel takes from size 8 on.
fn with_late_scratch(size: u64) -> Trace {
    let mut recorder = Recorder::new();
    let operator = recorder.begin_operator(MAIN, "aten::convolution");
    recorder.birth(MAIN, &gpu(), 100 * size).unwrap();
    if size >= 8 {
        let scratch = recorder.birth(MAIN, &gpu(), 800).unwrap();
        recorder.death(MAIN, scratch).unwrap();
    }
    recorder.end_operator(operator).unwrap();
    recorder.finish()
}

#[test]
fn scratch_that_comes_late_grows_from_nothing_and_is_never_less() {
    let growth = Growth::fit(&[(4, &with_late_scratch(4)), (8, &with_late_scratch(8))]).unwrap();
    let needs = |size| growth.needs_bytes(&gpu(), size);
    assert_eq!([needs(1), needs(3), needs(4), needs(8), needs(16)], [100, 300, 400, 1600, 4000]);
    assert_eq!(
        [299, 300, 399, 400].map(|bytes| growth.largest(&gpu(), bytes)),
        [Some(2), Some(3), Some(3), Some(4)]
    );
}

#[test]
fn older_storages_that_stay_are_no_difference() {
    let there = |count| {
        let mut recorder = Recorder::new();
        for _ in 0..count {
            recorder.existing(&gpu(), 8).unwrap();
        }
        recorder.finish()
    };
    let growth = Growth::fit(&[(4, &there(1)), (8, &there(2))]).unwrap();
    assert_eq!(growth.needs_bytes(&gpu(), 100), 0);
}

/// Attempts, given by their depths, each of which makes 8 bytes for each item; all of it is freed at the end.
fn attempts(depths: &[usize], size: u64) -> Trace {
    let mut recorder = Recorder::new();
    let (mut open, mut made) = (Vec::new(), Vec::new());
    for depth in depths {
        while open.len() > *depth {
            recorder.end_scope(open.pop().unwrap()).unwrap();
        }
        open.push(recorder.begin_scope(MAIN, Label::new(ScopeKind::Attempt, "piece")));
        made.push(recorder.birth(MAIN, &gpu(), 8 * size).unwrap());
    }
    while let Some(scope) = open.pop() {
        recorder.end_scope(scope).unwrap();
    }
    for storage in made {
        recorder.death(MAIN, storage).unwrap();
    }
    recorder.finish()
}

#[test]
fn pieces_are_outermost_attempts_and_hold_what_they_leave() {
    for (depths, first, left) in
        [(&[0][..], 8, 8), (&[0, 0], 8, 8), (&[0, 1, 0], 16, 16), (&[0, 1, 1, 0], 24, 24)]
    {
        let growth = Growth::fit(&[(4, &attempts(depths, 4)), (8, &attempts(depths, 8))]).unwrap();
        assert_eq!(growth.line(&gpu(), 100).per_item, first, "{depths:?}");
        assert_eq!(growth.leaves(&gpu())[0].per_item, left, "{depths:?}");
        assert_eq!(growth.leaves(&gpu())[1].per_item, 8, "{depths:?}");
    }
}
