//! The attempts of one call, checked against the rules of all loops as they come in.

use std::mem;
use std::ops::Range;

use crate::plan::Plan;

/// The attempts of one call so far.
///
/// The log sees the attempts whose body ran and those that were undone, as any program does. It learns from the next
/// event that an attempt succeeded.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The attempt whose body ran last, until the next event.
    open: Option<Open>,
    /// The work is in fallback.
    in_fallback: bool,
    /// The largest size that has succeeded since an item was left out at the floor.
    fits: Option<usize>,
    /// The attempt that was undone last, until the next event.
    undone: Option<Undone>,
    /// Start of the next piece.
    position: usize,
    here: Here,
    pub(crate) attempts: usize,
    /// Pieces that succeeded.
    pub(crate) done: Vec<Range<usize>>,
    pub(crate) left_out: Vec<usize>,
    /// Number of the fault of the first item that was left out.
    pub(crate) first_left_out: Option<u64>,
}

#[derive(Debug)]
struct Open {
    items: Range<usize>,
    ended_well: bool,
}

#[derive(Debug)]
struct Undone {
    items: Range<usize>,
    fault: Option<u64>,
}

/// The attempts at one position.
#[derive(Debug, Default)]
pub(crate) struct Here {
    pub(crate) attempts: usize,
    /// Number of attempts with as many items as the last.
    pub(crate) repeats: usize,
    pub(crate) last: Range<usize>,
}

impl Log {
    /// Returns the log of a call that is made in fallback, or not.
    pub(crate) fn new(in_fallback: bool) -> Self {
        Self { in_fallback, ..Self::default() }
    }

    pub(crate) fn is_in_fallback(&self) -> bool {
        self.in_fallback
    }

    /// Records that a body begins, and whether it is in fallback.
    pub(crate) fn begins(&mut self, items: Range<usize>, plan: &Plan, falls_back: bool) {
        if falls_back && !self.in_fallback {
            self.fall_back(plan);
        }
        self.attempt(&items, plan);
        assert_eq!(falls_back, self.in_fallback, "a body that is to fall back, or not: {self:?}");
        self.open = Some(Open { items, ended_well: false });
    }

    /// Records that the body has ended without an error.
    pub(crate) fn ends_well(&mut self) {
        self.open.as_mut().expect("a body that ends has begun").ended_well = true;
    }

    /// Records that an attempt was undone. If the attempt had ended without an error or never begun, it failed by
    /// injection.
    pub(crate) fn undo(&mut self, items: Range<usize>, plan: &Plan, (fault, injected): (Option<u64>, bool)) {
        if let Some(open) = self.open.take_if(|open| open.items == items) {
            assert!(!open.ended_well || injected, "{items:?} has succeeded and is undone: {self:?}");
        } else {
            assert!(injected, "{items:?} is undone and has never begun: {self:?}");
            self.attempt(&items, plan);
        }
        self.undone = Some(Undone { items, fault });
    }

    /// Records that the call reported an item as left out.
    pub(crate) fn leave_out(&mut self, index: usize, plan: &Plan) {
        let undone = self.undone.take().expect("what is left out is undone before");
        assert_eq!(undone.items, index..index + 1);
        self.go_on_without(&undone, plan);
    }

    /// Records that the call has ended, successfully as far as this log can see.
    pub(crate) fn succeed(&mut self, plan: &Plan) {
        assert!(self.undone.is_none(), "what was undone is neither done again nor left out: {self:?}");
        self.advance(plan);
        if !plan.form.is_batch() {
            assert_eq!(self.position, plan.total, "elements are lost: {self:?}");
        }
    }

    /// Records that the call has ended with the failure of an item that was left out.
    pub(crate) fn succeed_without(&mut self, plan: &Plan) {
        if let Some(undone) = self.undone.take() {
            self.go_on_without(&undone, plan);
        }
        self.succeed(plan);
    }

    /// Returns the attempts at the last piece if the last attempt has failed.
    pub(crate) fn failed_here(&self) -> Option<&Here> {
        self.open.as_ref().filter(|open| !open.ended_well).map(|_| &self.here)
    }

    fn attempt(&mut self, items: &Range<usize>, plan: &Plan) {
        self.advance(plan);
        if let Some(undone) = self.undone.take().filter(|undone| undone.items.start != items.start) {
            assert!(plan.form.packs(), "{items:?} after {undone:?}");
            self.go_on_without(&undone, plan);
        }
        assert_eq!(items.start, self.position, "{items:?} is not next: {self:?}");
        check_size(items, plan);
        self.attempts += 1;
        if plan.rungs.fallback
            && !self.in_fallback
            && self.here.attempts > 0
            && items.len() > self.here.last.len()
        {
            self.fall_back(plan);
        }
        self.here.add(items.clone(), plan);
        assert!(self.here.attempts <= plan.sizes.max_attempts, "one more attempt than allowed: {self:?}");
    }

    /// Records a success: another attempt begins or the call ends, so the attempt before has succeeded unless it was
    /// undone.
    fn advance(&mut self, plan: &Plan) {
        let Some(Open { items, ended_well }) = self.open.take() else { return };
        assert!(ended_well, "{items:?} has failed, and the work goes on: {self:?}");
        assert!(!plan.form.is_batch() || self.done.is_empty(), "a batch goes on: {self:?}");
        self.fits = self.fits.max(Some(plan.size(&items)));
        (self.position, self.here) = (items.end, Here::default());
        self.done.push(items);
    }

    /// Records a fallback: no smaller size was left, and the sizes begin anew.
    fn fall_back(&mut self, plan: &Plan) {
        assert!(plan.rungs.fallback, "no fallback was allowed: {self:?}");
        assert!(self.here.attempts > 0, "a fallback before anything has failed: {self:?}");
        let size = plan.size(&self.here.last);
        let is_single_item = plan.form.packs() && self.here.last.len() == 1;
        assert!(size <= plan.sizes.floor() || is_single_item, "a fallback before the floor: {self:?}");
        self.in_fallback = true;
        (self.here.repeats, self.here.last) = (0, 0..usize::MAX);
    }

    fn go_on_without(&mut self, undone: &Undone, plan: &Plan) {
        let Undone { items, fault } = undone;
        assert_eq!(items.len(), 1, "only a single item may be left out");
        let size = plan.size(items);
        if size <= plan.sizes.floor() {
            assert!(self.fits >= Some(size), "{items:?} is left out at the floor: {self:?}");
            self.fits = None;
        }
        if self.left_out.is_empty() {
            self.first_left_out = *fault;
        }
        self.left_out.push(items.start);
        (self.position, self.here) = (items.end, Here::default());
    }
}

impl Here {
    fn add(&mut self, items: Range<usize>, plan: &Plan) {
        let last = mem::replace(&mut self.last, items);
        let now = self.last.len();
        self.repeats = if now == last.len() { self.repeats + 1 } else { 1 };
        assert!(self.attempts == 0 || now <= last.len(), "{now} items after {} failed", last.len());
        assert!(self.repeats <= plan.repeats(), "{now} items once more, without end");
        self.attempts += 1;
    }
}

fn check_size(items: &Range<usize>, plan: &Plan) {
    let (size, sizes) = (plan.size(items), &plan.sizes);
    assert!(!items.is_empty(), "an attempt at nothing");
    assert!(size <= sizes.cap() || items.len() == 1 && plan.form.packs(), "{items:?} is too large");
    if plan.form.packs() {
        return;
    }
    let ragged = !plan.form.is_batch() && items.end == plan.total;
    assert!(ragged || size.is_multiple_of(sizes.multiple_of), "{items:?} is no multiple");
    assert!(ragged || size >= sizes.floor(), "{items:?} is below the floor");
    assert!(plan.form.is_batch() || items.end <= plan.total, "{items:?} of {} items", plan.total);
}
