//! Comparison of a body with the judged program, by dry runs of other numbers of items and with other numbers in them.

use std::ops::Range;

use toma_plan::Judged;
use toma_trace::Trace;

use super::judging::Splitting;
use super::making::{sizes_of, wide};
use super::runs::{Answer, Run, TensorOutcome, dry_run, dry_trace};

/// Answers to a body that reads numbers, in addition to 1, so that a branch on them shows: signs, sizes, and comparisons
/// of one number with the next. A Boolean is true unless the answer is 0, and no integer is negative.
const ANSWERS: [Answer; 9] = [
    Answer::always(0.0),
    Answer::always(0.5),
    Answer::always(1000.0),
    Answer::always(-1000.0),
    Answer::always(1e6),
    Answer::always(f64::NAN),
    Answer { first: 0.0, step: 1.0 },
    Answer { first: 1.0, step: -1.0 },
    Answer { first: 1000.0, step: -1.0 },
];

impl Splitting<'_> {
    /// Returns true if the body runs the judged operators with all items, and those of the first piece. It may branch
    /// on the number of items, or on numbers that it reads, so dry runs give a body that reads other [answers](ANSWERS)
    /// than 1. Later pieces have an item less if the items do not divide evenly.
    ///
    /// A loss that the caller declares is trusted.
    pub(super) fn all_do_as<R: TensorOutcome<S>, S>(
        &self,
        did: Option<&Trace>,
        piece: &Range<usize>,
        run: &mut impl Run<R>,
        undo: &impl Fn(Range<usize>),
    ) -> bool {
        if !self.can_run_dry || self.site.purpose.is_given().is_some() {
            return true;
        }
        let is_known =
            |trace: &Trace| self.is_of(self.items, trace) && self.takes_same(did, piece.len(), trace);
        let (mut has_run, mut writes) = (false, false);
        let mut known = |answer| {
            let ran = dry_run(self.items, answer, run, undo)?;
            has_run |= ran.forward.is_some();
            writes |= ran.forward.as_ref().is_some_and(|trace| !Judged::written(trace).is_empty());
            // A body that fails at a number gives no result that could be wrong.
            let is_same = !ran.has_seeded && ran.forward.is_none_or(|trace| is_known(&trace));
            is_same.then_some(ran.unknown)
        };
        let less = piece.len() - 1;
        let is_even = less == 0 || self.divides_evenly(piece);
        let [first, others @ ..] = ANSWERS;
        let unknown = known(first);
        self.reads.set(unknown.as_ref().is_none_or(|unknown| !unknown.is_empty()));
        let is_same = unknown.is_some()
            && (!self.reads.get() || others.into_iter().all(|answer| known(answer).is_some()));
        let mut written = |size| dry_trace(size, run, undo).map(|trace| Judged::written(&trace));
        let is_same = is_same && (!writes || written(self.items) == written(piece.len()));
        let mut runs = || has_run || dry_trace(self.items, run, undo).is_some_and(|trace| is_known(&trace));
        let does_less = |trace: Trace| self.takes_same(did, less, &trace);
        if is_same && runs() && (is_even || self.dry_if_judged(less, run, undo).is_some_and(does_less)) {
            return true;
        }
        self.stays_whole(self.does_other_things(if is_even { piece.len() } else { less }));
        false
    }

    /// Reason for not splitting a body that does other things with all items than with `items`.
    fn does_other_things(&self, items: usize) -> String {
        let (all, advice) = (self.items, self.site.purpose.advice());
        let numbers = if self.reads.get() { ", or with other numbers in them" } else { "" };
        format!("the body does other things with {all} items than with {items}{numbers}{advice}")
    }

    pub(super) fn is_of(&self, size: usize, trace: &Trace) -> bool {
        let judged = self.judged.borrow();
        u32::try_from(size)
            .is_ok_and(|size| judged.as_deref().is_some_and(|judged| judged.is_of(size, trace)))
    }

    /// True if fewer items than were judged do the same, as far as libraries let them, which may run other operators
    /// for few.
    pub(super) fn is_of_few<R: TensorOutcome<S>, S>(
        &self,
        size: usize,
        trace: &Trace,
        run: &mut impl Run<R>,
        undo: &impl Fn(Range<usize>),
    ) -> bool {
        let dry = self.is_few(size).then(|| dry_trace(size, run, undo)).flatten();
        dry.is_some_and(|dry| Judged::is_same([&dry, trace])) && self.is_of_few_judged(size, trace)
    }

    /// True if a trace takes the same tensors and numbers as the first piece did. `size` is the smaller number of items.
    pub(super) fn takes_same(&self, did: Option<&Trace>, size: usize, trace: &Trace) -> bool {
        let judged = self.judged.borrow();
        let is_few = self.is_few(size);
        judged.as_deref().zip(did).is_none_or(|(judged, did)| judged.takes_same([did, trace], is_few))
    }

    /// Returns the forward of so many items in a dry run, if it is of the judged program.
    fn dry_if_judged<R: TensorOutcome<S>, S>(
        &self,
        size: usize,
        run: &mut impl Run<R>,
        undo: &impl Fn(Range<usize>),
    ) -> Option<Trace> {
        let does = |trace: &Trace| {
            if self.is_few(size) { self.is_of_few_judged(size, trace) } else { self.is_of(size, trace) }
        };
        dry_trace(size, run, undo).filter(does)
    }

    /// True for fewer items than were judged.
    fn is_few(&self, size: usize) -> bool {
        size < wide(sizes_of(self.items)[0])
    }

    fn is_of_few_judged(&self, size: usize, trace: &Trace) -> bool {
        let size = u32::try_from(size).ok();
        let judged = self.judged.borrow();
        size.zip(judged.as_deref()).is_none_or(|(size, judged)| judged.is_of_few(size, trace))
    }
}
