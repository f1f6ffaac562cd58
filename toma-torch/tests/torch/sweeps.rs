//! Each net under every budget that changes its course: from one that fits everything at once down to one that does not
//! fit a single row. Attempts are predicted from the bytes that each piece was measured to take.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use tch::{TchError, Tensor};
use toma_core::GlobalCache;
use toma_core::execute;
use toma_torch::{Concatenate as _, Rollback};

use crate::ground::{self, Budget};
use crate::nets::{self, Net, ROADS, ROWS, Road, of_rows};
use crate::rounds::rounds;
use crate::stage::{alone, caught, copies, difference, printed};

/// The loop that runs a net.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Inference, collected by `map`.
    Map,
    /// Inference, written into the output by `chunked`.
    Chunked,
    /// Gradients summed over the pieces of a `range`.
    Range,
    /// The loss and the gradients of as many rows as fit, by `batch`.
    Batch,
}

const FORMS: [Form; 4] = [Form::Map, Form::Chunked, Form::Range, Form::Batch];

/// Bytes that one piece takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    peak: u64,
    /// Bytes of its values, which the call keeps.
    kept: u64,
}

/// Expected course of a call under a budget.
#[derive(Debug, Default)]
struct Expected {
    /// Attempts, each with the bytes held when it begins.
    attempts: Vec<(Range<usize>, u64)>,
    done: Vec<Range<usize>>,
    fits: bool,
    /// The step after the last shrink.
    settled: Option<usize>,
}

struct Work<'n> {
    net: &'n Net,
    form: Form,
    road: Road,
    output: Tensor,
    rollback: Rollback,
    costs: RefCell<HashMap<Range<usize>, Cost>>,
    /// Bytes held when a call begins.
    base: Cell<u64>,
    attempts: RefCell<Vec<(Range<usize>, u64)>>,
    /// Failed attempts, and how many of them failed in backward.
    failures: Cell<usize>,
    in_backward: Cell<usize>,
}

/// The body of the loop.
impl Work<'_> {
    /// Makes one attempt, after saving the state that a failure would have to restore.
    fn attempt(&self, rows: &Range<usize>) -> Result<Vec<Tensor>, TchError> {
        self.rollback.refresh()?;
        self.work(rows)
    }

    fn work(&self, rows: &Range<usize>) -> Result<Vec<Tensor>, TchError> {
        match self.form {
            Form::Map => Ok(vec![self.infer(rows)?]),
            Form::Chunked => of_rows(&self.output, rows).f_copy_(&self.infer(rows)?).map(|()| Vec::new()),
            Form::Range => self.train(rows),
            Form::Batch => {
                self.net.weights().iter_mut().for_each(Tensor::zero_grad);
                self.train(rows)
            }
        }
    }

    fn infer(&self, rows: &Range<usize>) -> Result<Tensor, TchError> {
        let _off = tch::no_grad_guard();
        self.net.output(self.road, rows, false)
    }

    fn train(&self, rows: &Range<usize>) -> Result<Vec<Tensor>, TchError> {
        let loss = self.net.loss(self.road, rows)?;
        // Counted as failed in backward until backward has ended.
        self.in_backward.set(self.in_backward.get() + 1);
        self.net.backward(self.road, &loss)?;
        self.in_backward.set(self.in_backward.get() - 1);
        Ok(if self.form == Form::Batch { vec![loss.detach()] } else { Vec::new() })
    }

    fn observed(&self, rows: Range<usize>) -> Result<Vec<Tensor>, TchError> {
        let level = ground::allocated_bytes() - self.base.get();
        self.attempts.borrow_mut().push((rows.clone(), level));
        self.attempt(&rows)
    }

    fn call(&self, cache: &GlobalCache) -> Result<Vec<Tensor>, TchError> {
        let with = execute::with::<GlobalCache>().cache(cache).before_retry(|_| self.rollback.restore());
        match self.form {
            Form::Map => with
                .map(0..ROWS, self.initial(), |start, end| self.observed(start..end))
                .map(|values| values.into_iter().flatten().collect()),
            Form::Chunked => with
                .chunked(&self.output, self.initial(), |chunk, start, end| {
                    assert_eq!(chunk.data_ptr(), of_rows(&self.output, &(start..end)).data_ptr());
                    self.observed(start..end).map(drop)
                })
                .map(|()| Vec::new()),
            Form::Range => with
                .range(0..ROWS, self.initial(), |start, end| self.observed(start..end).map(drop))
                .map(|()| Vec::new()),
            Form::Batch => with.batch(self.initial(), |size| self.observed(0..size)),
        }
    }

    fn learns(&self) -> bool {
        matches!(self.form, Form::Range | Form::Batch)
    }

    /// Starts with more rows than there are; only a batch would run them.
    fn initial(&self) -> usize {
        if self.form == Form::Batch { ROWS } else { ROWS + 10 }
    }
}

/// The expected course and the measured costs.
impl<'n> Work<'n> {
    fn new(net: &'n Net, form: Form, road: Road) -> Self {
        net.zero_gradients();
        let output = net.output(Road::Errors, &(0..ROWS), false).unwrap().detach();
        Self {
            net,
            form,
            road,
            output,
            rollback: net.rollback(road),
            costs: RefCell::default(),
            base: Cell::default(),
            attempts: RefCell::default(),
            failures: Cell::default(),
            in_backward: Cell::default(),
        }
    }

    /// Restores the state in which nothing has been done.
    fn reset(&self) {
        tch::manual_seed(11);
        let _ = self.output.shallow_clone().zero_();
        self.net.zero_gradients();
        self.net.reset_buffers();
    }

    /// All tensors that the work changes.
    fn state(&self) -> Vec<Tensor> {
        let output = [self.output.shallow_clone()];
        copies(output.iter().chain(&self.net.state()))
    }

    /// Returns the values of these pieces and the state after them, computed without a budget.
    fn right(&self, pieces: &[Range<usize>]) -> (Vec<Tensor>, Vec<Tensor>) {
        self.reset();
        let values = pieces.iter().flat_map(|rows| self.attempt(rows).unwrap()).collect();
        (values, self.state())
    }

    fn cost(&self, rows: &Range<usize>) -> Cost {
        if let Some(cost) = self.costs.borrow().get(rows) {
            return *cost;
        }
        // Runs twice before measuring, because a first run may fill tables that stay.
        let _ = self.measure(rows);
        let cost = self.measure(rows);
        assert_eq!(cost, self.measure(rows));
        self.costs.borrow_mut().insert(rows.clone(), cost);
        cost
    }

    fn measure(&self, rows: &Range<usize>) -> Cost {
        self.reset();
        let before = ground::allocated_bytes();
        // Refreshing a rollback is never refused, so its bytes are not part of the peak that must fit.
        ground::reset_peak_allocated_bytes();
        let values = self.work(rows).unwrap();
        let peak = ground::peak_allocated_bytes() - before;
        let kept = ground::allocated_bytes() - before;
        drop(values);
        assert_eq!(ground::allocated_bytes(), before);
        Cost { peak, kept }
    }

    /// A naive twin that halves a size which does not fit, until it does.
    fn foretell(&self, initial: usize, room: u64) -> Expected {
        let mut expected = Expected { fits: true, ..Expected::default() };
        let (mut step, mut start, mut held) = (initial, 0, 0);
        while start < ROWS && (self.form != Form::Batch || start == 0) {
            let rows = start..ROWS.min(start + step);
            expected.attempts.push((rows.clone(), held));
            let cost = self.cost(&rows);
            if held + cost.peak <= room {
                held += cost.kept;
                start = rows.end;
                expected.done.push(rows);
            } else if rows.len() == 1 {
                expected.fits = false;
                break;
            } else {
                step = rows.len() / 2;
                expected.settled = Some(step);
            }
        }
        expected
    }

    /// Budgets to try: the peak of each size, a byte less, midpoints between two peaks, nothing, and everything.
    fn rooms(&self) -> BTreeSet<u64> {
        let mut peaks = vec![0];
        let mut size = ROWS;
        while size > 0 {
            peaks.push(self.cost(&(0..size)).peak);
            size /= 2;
        }
        peaks.sort_unstable();
        let between = peaks.windows(2).map(|pair| u64::midpoint(pair[0], pair[1])).collect::<Vec<_>>();
        let below = peaks.iter().map(|peak| peak.saturating_sub(1)).collect::<Vec<_>>();
        let everything = 2 * peaks[peaks.len() - 1];
        peaks.into_iter().chain(between).chain(below).chain([everything]).collect()
    }
}

/// The comparison of calls with their expected course.
impl Work<'_> {
    fn check_every_room(&self) {
        let rooms = self.rooms();
        let mut fitting = 0;
        for room in &rooms {
            fitting += usize::from(self.check_twice(*room));
        }
        assert!(fitting > 4 && rooms.len() - fitting > 2, "{fitting} of {} fit", rooms.len());
        let (failures, in_backward) = (self.failures.get(), self.in_backward.get());
        assert!(failures > in_backward && (in_backward > 0) == self.learns(), "{in_backward} of {failures}");
    }

    /// Returns true if the work fits.
    fn check_twice(&self, room: u64) -> bool {
        let cache = GlobalCache::new();
        let first = self.foretell(self.initial(), room);
        self.check(&cache, room, &first);
        // A call that fails in the end stores no size, so the next call begins with the same one.
        let settled = first.settled.filter(|_| first.fits);
        let second = self.foretell(settled.unwrap_or(self.initial()), room);
        self.check(&cache, room, &second);
        first.fits
    }

    fn check(&self, cache: &GlobalCache, room: u64, expected: &Expected) {
        let name = format!("{} {:?} {:?} {room} bytes", self.net.name, self.form, self.road);
        let right = self.right(&expected.done);
        self.reset();
        self.base.set(ground::allocated_bytes());
        self.attempts.take();
        let budget = Budget::beyond_allocated(room);
        let (outcome, printed) = printed(|| caught(|| self.call(cache)));
        drop(budget);
        if !expected.fits {
            // The last attempt has no retry, so its changes are left to the caller.
            self.rollback.restore();
        }
        assert_eq!(*self.attempts.borrow(), expected.attempts, "{name}");
        match outcome {
            Ok(Ok(values)) => {
                assert!(expected.fits, "{name}");
                assert_eq!(values, right.0, "{name}");
            }
            Ok(Err(error)) => self.check_failure(&error.to_string(), expected, Road::Errors),
            Err(text) => self.check_failure(&text, expected, Road::Panics),
        }
        self.failures.set(self.failures.get() + expected.attempts.len() - expected.done.len());
        assert_eq!(printed, usize::from(!expected.fits && self.road == Road::Panics), "{name}");
        assert_eq!(ground::allocated_bytes(), self.base.get(), "{name}");
        assert_eq!(self.state(), right.1, "{name}");
    }

    fn check_failure(&self, text: &str, expected: &Expected, road: Road) {
        assert!(!expected.fits && self.road == road, "{expected:?}");
        assert!(text.contains("CPU out of memory: tried to allocate"), "{text}");
    }

    /// Pieces give the results of the whole, up to the order of sums.
    fn check_pieces_against_the_whole(&self) {
        let whole = self.right(std::slice::from_ref(&(0..ROWS)));
        for step in [11, 5, 2, 1] {
            let pieces: Vec<_> = (0..ROWS).step_by(step).map(|at| at..ROWS.min(at + step)).collect();
            let (values, state) = self.right(&pieces);
            if self.form == Form::Map {
                assert!(difference(&[values.concatenate(0)], &whole.0) <= 1e-5);
            }
            assert!(difference(&state, &whole.1) <= 1e-5, "{}", self.net.name);
        }
    }
}

#[test]
fn of_each_net_in_each_form_by_each_road() {
    let _alone = alone();
    let part = rounds(2, 1);
    for (at, net) in nets::NETS.map(|net| net()).iter().enumerate() {
        let ways = ROADS.into_iter().flat_map(|road| FORMS.map(|form| (road, form)));
        for (way, (road, form)) in ways.enumerate() {
            // In the daily run each net takes half of the forms, with one kind of failure each.
            if !(at + way + way / FORMS.len()).is_multiple_of(part) {
                continue;
            }
            let work = Work::new(net, form, road);
            work.check_every_room();
            if form != Form::Batch && (form != Form::Range || !net.mixes_rows()) {
                work.check_pieces_against_the_whole();
            }
        }
    }
}

#[test]
fn with_several_threads_at_each_operator() {
    let _alone = alone();
    tch::set_num_threads(2);
    assert_eq!(tch::get_num_threads(), 2);
    let net = nets::wide_perceptron();
    // Few threads, because threads that wait for each other are slow on a busy machine.
    for (form, road) in
        [(Form::Map, Road::Panics), (Form::Range, Road::Errors)].into_iter().take(rounds(1, 2))
    {
        let work = Work::new(&net, form, road);
        let half = work.cost(&(0..ROWS / 2)).peak;
        let row = work.cost(&(0..1)).peak;
        for room in [half + row, half - 1, row - 1] {
            work.check_twice(room);
        }
    }
}
