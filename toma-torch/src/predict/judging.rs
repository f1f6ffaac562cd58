//! Judgement on splitting, which each call that splits makes for its own body.
//!
//! # Why
//!
//! One line may run several bodies, so a verdict is no property of a line. The first piece of a call that splits is
//! recorded, and its operators are compared with those of the judged program before its backward adds anything. If they
//! differ, the piece is dropped and the body is judged by dry runs. Calls that do not split pay nothing.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tch::Tensor;
use toma_core::execute::With;
use toma_core::report;
use toma_plan::{Combined, Judged};
use toma_trace::Trace;

use super::key::{Purpose, Site};
use super::making::sizes_of;
use super::prediction::Prediction;
use super::printed::print_once;
use super::runs::{Run, TensorOutcome, UNJUDGED, judged, recorded};
use super::verdict::Verdict;
use crate::ffi;

/// The program that was judged last at a line.
#[derive(Debug, Default)]
pub(crate) struct Program(Mutex<Option<Arc<Judged>>>);

impl Program {
    fn get(&self) -> Option<Arc<Judged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Program of a prediction's dry runs; `None` if these could not be compared.
    pub(super) fn of(prediction: &Prediction) -> Self {
        Self(Mutex::new(prediction.judged().ok().map(Arc::new)))
    }

    fn set(&self, judged: Option<Arc<Judged>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = judged;
    }
}

/// Label that losses of libtorch leave out by default (`ignore_index`).
const IGNORED: i64 = -100;

/// Sizes of pieces if none needs a check.
const ANY_SIZE: [usize; 2] = [0, usize::MAX];

/// Decision on splitting one call.
#[derive(Debug)]
pub(crate) struct Splitting<'p> {
    pub(super) site: Site,
    pub(super) items: usize,
    /// Bound on sizes that the caller has set.
    largest: Option<usize>,
    program: &'p Program,
    /// Program that this call goes by, because another thread may judge another body of the line meanwhile.
    pub(super) judged: RefCell<Option<Arc<Judged>>>,
    /// True if the body of this call was judged.
    is_judged: Cell<bool>,
    /// Least and largest size of pieces like those that were checked last.
    checked_sizes: Cell<[usize; 2]>,
    /// True if the body reads numbers or shapes of its data, by which each piece may do other things.
    pub(super) reads: Cell<bool>,
    /// Items and forward of the first piece, if the body reads.
    first: RefCell<Option<(usize, Trace)>>,
    /// Reason if dry runs gave no program.
    unjudged: Cell<&'static str>,
    pub(super) can_run_dry: bool,
    integers: Vec<Tensor>,
    combined: Cell<Option<Combined>>,
    /// Reason for not splitting the call.
    why: RefCell<Option<String>>,
    /// True if an attempt at a piece has become one at all items.
    is_whole: AtomicBool,
    is_done: Cell<bool>,
}

/// Properties of a call that the judgement needs.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) items: usize,
    pub(crate) largest: Option<usize>,
    /// True if dry runs are possible here.
    pub(crate) can_run_dry: bool,
    /// True if nothing may be split without a judgement.
    pub(crate) needs_judgement: bool,
    /// Integers of the data, which may be labels.
    pub(crate) integers: Vec<Tensor>,
}

impl<'p> Splitting<'p> {
    /// `is_judged`: the program comes from dry runs of this call.
    pub(crate) fn new(site: Site, case: Case, program: &'p Program, is_judged: bool) -> Self {
        let Case { items, largest, can_run_dry, needs_judgement, integers } = case;
        Self {
            site,
            items,
            largest,
            program,
            judged: RefCell::new(program.get()),
            is_judged: Cell::new(is_judged),
            checked_sizes: Cell::new(if needs_judgement { [usize::MAX, 0] } else { ANY_SIZE }),
            reads: Cell::new(false),
            first: RefCell::new(None),
            unjudged: Cell::new(UNJUDGED),
            can_run_dry,
            integers,
            combined: Cell::new(None),
            why: RefCell::new(None),
            is_whole: AtomicBool::new(false),
            is_done: Cell::new(false),
        }
    }

    /// Returns the form that no longer shrinks once a piece has become all items, and that begins with all if known.
    pub(crate) fn lead<'a, P, K, B>(&'a self, form: With<'a, P, K, B>) -> With<'a, P, K, B> {
        let form = form.shrinks_unless(&self.is_whole);
        if self.is_split() { form } else { form.unsplit(self.items) }
    }

    fn is_split(&self) -> bool {
        self.why.borrow().is_none()
    }

    /// Returns true after the first piece if that held all items. At `start` 0 it is false, because that piece may be tried
    /// again: its attempt may fail after the body has run, as when ranks disagree.
    pub(crate) fn is_done(&self, start: usize) -> bool {
        start > 0 && self.is_done.get()
    }

    /// Returns how results of pieces make up the result of the whole.
    pub(crate) fn combined(&self) -> Option<Combined> {
        self.combined.get()
    }

    /// Records that a piece has succeeded.
    pub(crate) fn ran(&self, piece: &Range<usize>) {
        self.is_done.set(piece.len() == self.items);
    }

    /// Decides before the first attempt, if the body was judged in this call or cannot be judged.
    ///
    /// # Panics
    /// When the call must not be split, and the caller has set a bound below the number of items.
    pub(crate) fn decide(&self) {
        if self.checked_sizes.get() == ANY_SIZE || self.can_run_dry && !self.is_judged.get() {
            return;
        }
        match self.verdict() {
            Verdict::Never(why) => self.refuse(why),
            _ if !self.can_run_dry => self.checked_sizes.set(ANY_SIZE),
            _ => {}
        }
    }

    /// True if the program that was judged last must not be split.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.checked_sizes.get() != ANY_SIZE
            && !self.is_judged.get()
            && matches!(self.verdict(), Verdict::Never(_))
    }

    /// Runs a piece, or all items if they must not be split; returns the outcome and the items that ran.
    ///
    /// `undo` takes back the effects of a piece. Dry runs begin with the first item, and their effects follow those of
    /// pieces that are done.
    pub(crate) fn attempt<R: TensorOutcome<S>, S>(
        &self,
        piece: Range<usize>,
        run: &mut impl Run<R>,
        undo: &impl Fn(Range<usize>),
    ) -> (R, Range<usize>) {
        let whole = 0..self.items;
        if !self.is_split() {
            return (run(None, whole.clone()), whole);
        }
        let [least, most] = self.checked_sizes.get();
        let is_checked = (least..=most).contains(&piece.len());
        if is_checked && !self.reads.get() || piece.len() == self.items {
            return (run(None, piece.clone()), piece);
        }
        let checked = if is_checked { Self::compared } else { Self::checked };
        if let Some(outcome) = checked(self, &piece, run, &after(piece.start, undo)) {
            return (outcome, piece);
        }
        self.assert_none_is_done(&piece);
        (run(None, whole.clone()), whole)
    }

    /// Another size than before is checked, too, and by then earlier pieces may be a part of the result.
    fn assert_none_is_done(&self, piece: &Range<usize>) {
        let (start, size) = (piece.start, piece.len());
        let why = || self.why.borrow().clone().unwrap_or_default();
        assert!(
            start == 0,
            "the first {start} items are done, and pieces of {size} must not follow: {}",
            why()
        );
    }

    /// Returns the outcome of a further piece of a body that reads, or `None` if its operators are not the judged ones.
    fn compared<R: TensorOutcome<S>, S>(
        &self,
        piece: &Range<usize>,
        run: &mut impl Run<R>,
        undo: &impl Fn(Range<usize>),
    ) -> Option<R> {
        // The first piece made its casts itself.
        ffi::toma_casts_clear();
        let (outcome, did) = recorded(piece, run);
        let Ok(trace) = did else { return Some(outcome) };
        let size = piece.len();
        // The piece stays, so effects of dry runs follow its own.
        let is_known = |trace: &Trace| {
            (self.is_of(size, trace) || self.is_of_few(size, trace, run, &after(size, undo)))
                && self
                    .first
                    .borrow()
                    .as_ref()
                    .is_none_or(|(first, did)| self.takes_same(Some(did), size.min(*first), trace))
        };
        let why = match trace.as_ref().map(is_known) {
            Some(true) => return Some(outcome),
            Some(false) => "the body does other things with other items, by a number that it reads",
            None => "the body reads numbers, and this piece could not be recorded",
        };
        drop(outcome);
        undo(0..piece.len());
        self.stays_whole(format!("{why}{}", self.site.purpose.advice()));
        None
    }

    /// Returns the outcome of the first piece of a size, or `None` if the call must not be split.
    fn checked<R: TensorOutcome<S>, S>(
        &self,
        piece: &Range<usize>,
        run: &mut impl Run<R>,
        undo: &impl Fn(Range<usize>),
    ) -> Option<R> {
        // Earlier pieces may have left casts of weights.
        ffi::toma_casts_clear();
        let is_known = self.judged.borrow().as_deref().is_some_and(|judged| !judged.counts_rows());
        if !is_known && !self.is_judged.get() {
            self.judge(run, undo);
        }
        let (size, (outcome, did)) = (piece.len(), recorded(piece, run));
        let Ok(trace) = did else { return Some(outcome) };
        let is_known = trace.as_ref().is_some_and(|trace| self.is_of(size, trace));
        // While the piece stays, effects of dry runs follow its own.
        if is_known && self.splits() && self.all_do_as(trace.as_ref(), piece, run, &after(size, undo)) {
            return Some(self.checked_as(piece, outcome, trace));
        }
        drop(outcome);
        undo(0..size);
        if is_known { None } else { self.judged_and_checked(piece, run, undo) }
    }

    /// Judges a body that has run other operators than the judged ones, and checks its first piece by that.
    fn judged_and_checked<R: TensorOutcome<S>, S>(
        &self,
        piece: &Range<usize>,
        run: &mut impl Run<R>,
        undo: &impl Fn(Range<usize>),
    ) -> Option<R> {
        self.judge(run, undo);
        if !self.splits() {
            return None;
        }
        let (size, (outcome, did)) = (piece.len(), recorded(piece, run));
        let Ok(trace) = did else { return Some(outcome) };
        let after = after(size, undo);
        let is_known = trace
            .as_ref()
            .is_some_and(|trace| self.is_of(size, trace) || self.is_of_few(size, trace, run, &after));
        if is_known && self.all_do_as(trace.as_ref(), piece, run, &after) {
            return Some(self.checked_as(piece, outcome, trace));
        }
        drop(outcome);
        undo(0..size);
        if self.is_split() {
            let advice = self.site.purpose.advice();
            self.stays_whole(format!("the body does other things for real than in a dry run{advice}"));
        }
        None
    }

    /// Returns the outcome of a piece that was checked. Others have at least its items less one, if the items do not
    /// divide evenly.
    fn checked_as<R>(&self, piece: &Range<usize>, outcome: R, did: Option<Trace>) -> R {
        self.first.replace(did.filter(|_| self.reads.get()).map(|did| (piece.len(), did)));
        // A loss that the caller declares is trusted, so its larger pieces are, too.
        let most = if self.site.purpose.is_given().is_some() { usize::MAX } else { piece.len() };
        self.checked_sizes.set([piece.len() - usize::from(!self.divides_evenly(piece)), most]);
        outcome
    }

    /// True if pieces of this size make up all items that are left.
    pub(super) fn divides_evenly(&self, piece: &Range<usize>) -> bool {
        (self.items - piece.start).is_multiple_of(piece.len())
    }

    /// Acts on the verdict; returns true if pieces may go on.
    fn splits(&self) -> bool {
        let verdict = self.verdict();
        if !matches!(verdict, Verdict::Never(_)) && self.leaves_labels_out() {
            let advice = "`Loss::Counted` weighs pieces by the counts of their rows";
            self.stays_whole(format!("the mean leaves labels of {IGNORED} out: {advice}"));
            return false;
        }
        match verdict {
            Verdict::Never(why) => {
                self.stays_whole(why);
                return false;
            }
            Verdict::Splits(combined) => self.combined.set(Some(combined)),
            Verdict::Statistics(combined) => {
                print_once(&self.site, "split", "batch norm takes the statistics of each piece");
                self.combined.set(Some(combined));
            }
        }
        true
    }

    /// True if a mean over labels counts some of them only.
    fn leaves_labels_out(&self) -> bool {
        let is_ignored = |labels: &Tensor| bool::try_from(labels.eq(IGNORED).any());
        let averages_classes = || self.judged.borrow().as_deref().is_none_or(Judged::averages_classes);
        let _off = tch::no_grad_guard();
        self.site.purpose != Purpose::Counted
            && averages_classes()
            && self.integers.iter().any(|labels| is_ignored(labels).unwrap_or(true))
    }

    fn verdict(&self) -> Verdict {
        let judged = self.judged.borrow();
        let why =
            if self.can_run_dry { self.unjudged.get() } else { "dry runs are off, so it was not judged" };
        Verdict::of(judged.as_deref().ok_or(why), self.site.purpose)
    }

    /// Judges the body by dry runs of its forward.
    pub(crate) fn judge<R: TensorOutcome<S>, S>(&self, run: &mut impl Run<R>, undo: &impl Fn(Range<usize>)) {
        let sizes = sizes_of(self.items);
        let judged = if self.can_run_dry { judged(sizes, run, undo) } else { Err(UNJUDGED) };
        let judged = judged.map_err(|why| self.unjudged.set(why)).ok().map(Arc::new);
        self.judged.replace(judged.clone());
        self.program.set(judged);
        self.is_judged.set(true);
    }

    /// Makes each further attempt run all items, because a smaller one would not help.
    pub(super) fn stays_whole(&self, why: String) {
        self.refuse(why);
        self.is_whole.store(true, Relaxed);
    }

    fn refuse(&self, why: String) {
        let Site { caller, .. } = self.site;
        if let Some(largest) = self.largest.filter(|&largest| largest < self.items) {
            panic!("{caller}: max {largest} for {} items that must not be split, because {why}", self.items);
        }
        self.why.replace(Some(why));
    }
}

/// Returns the undo of dry runs whose items follow so many others.
fn after(items: usize, undo: &impl Fn(Range<usize>)) -> impl Fn(Range<usize>) {
    move |rows: Range<usize>| undo(items + rows.start..items + rows.end)
}

impl Drop for Splitting<'_> {
    /// Gives the reason if memory has run out. Otherwise the failure would look like one that no size avoids.
    fn drop(&mut self) {
        let ran_out = || report::last().is_some_and(|report| report.out_of_memory > 0);
        if let Some(why) = self.why.borrow().as_deref().filter(|_| !self.is_done.get() && ran_out()) {
            print_once(&self.site, "split", &format!("not split, because {why}"));
        }
    }
}
