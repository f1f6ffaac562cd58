//! The options of a call, all chosen at random.

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use toma::device::Ladder;
use toma::policy::Policy;
use toma::{Adaptive, Bisect, Decay, Halve, Throughput};

/// The largest budget.
pub(crate) const MOST_BYTES: u64 = 1 << 18;

/// The largest size, either a cost or a number of items.
pub(crate) const MOST_COST: usize = 256;

const MOST_ITEMS: usize = 48;

/// A call.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) form: Form,
    /// Number of items; unused in a batch.
    pub(crate) total: usize,
    /// Start of the range: 0 for forms that have none.
    pub(crate) offset: usize,
    pub(crate) sizes: Sizes,
    pub(crate) deadline: Option<Duration>,
    pub(crate) policy: Box<dyn Policy + Send + Sync>,
    pub(crate) rungs: Rungs,
    pub(crate) cache: usize,
    pub(crate) device: Option<usize>,
    pub(crate) key: u8,
    pub(crate) bytes_each: u64,
    costs: Vec<usize>,
}

/// The size options of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) initial: usize,
    pub(crate) min: usize,
    pub(crate) max: usize,
    pub(crate) multiple_of: usize,
    pub(crate) max_attempts: usize,
}

/// The rungs of a call's ladder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rungs {
    release: bool,
    pub(crate) wait: Option<Duration>,
    hooks: bool,
    pub(crate) fallback: bool,
}

/// A bound on a wait that should never be reached.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Every form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Batch,
    Range,
    /// The body returns nothing, so it can only fail by a panic.
    RangeUnit,
    Chunked,
    Tuple,
    Map,
    Fold,
    Iter,
    ByCost,
    /// Single items that fail are reported.
    LeftOut,
    /// The attempts also reserve bytes.
    Reserving,
    AttributeBatch,
    AttributeRange,
    AttributeChunked,
    Stream,
    StreamByCost,
    AsyncReserving,
    AsyncBatch,
    AsyncRange,
    AsyncChunked,
}

const SYNC: [Form; 14] = [
    Form::Batch,
    Form::Range,
    Form::RangeUnit,
    Form::Chunked,
    Form::Tuple,
    Form::Map,
    Form::Fold,
    Form::Iter,
    Form::ByCost,
    Form::LeftOut,
    Form::Reserving,
    Form::AttributeBatch,
    Form::AttributeRange,
    Form::AttributeChunked,
];

const ASYNC: [Form; 6] = [
    Form::Stream,
    Form::StreamByCost,
    Form::AsyncReserving,
    Form::AsyncBatch,
    Form::AsyncRange,
    Form::AsyncChunked,
];

impl Form {
    pub(crate) fn is_batch(self) -> bool {
        matches!(self, Self::Batch | Self::AttributeBatch | Self::AsyncBatch)
    }

    fn has_range(self) -> bool {
        let is_chunked =
            matches!(self, Self::Chunked | Self::Tuple | Self::AttributeChunked | Self::AsyncChunked);
        !self.is_batch() && !is_chunked
    }

    pub(crate) fn packs(self) -> bool {
        matches!(self, Self::ByCost | Self::LeftOut | Self::StreamByCost)
    }
}

impl Plan {
    /// Draws a plan. With `may_block`, a wait keeps no thread busy that others need.
    pub(crate) fn sync(random: &mut Rng, may_block: bool) -> Self {
        let form = SYNC[random.usize(..SYNC.len())];
        let mut plan = Self::of(form, random);
        if may_block && random.u8(..3) == 0 {
            plan.rungs.wait = Some(LONG);
        }
        plan
    }

    pub(crate) fn asynchronous(random: &mut Rng) -> Self {
        let form = ASYNC[random.usize(..ASYNC.len())];
        Self::of(form, random)
    }

    fn of(form: Form, random: &mut Rng) -> Self {
        let total = if random.u8(..30) == 0 { 0 } else { random.usize(1..=MOST_ITEMS) };
        let costs = (0..total).map(|_| if random.u8(..15) == 0 { 100 } else { random.usize(1..=8) });
        let costs = if form.packs() { costs.collect() } else { Vec::new() };
        Self {
            form,
            total,
            offset: if form.has_range() { random.usize(..1000) } else { 0 },
            sizes: Sizes::new(random),
            deadline: (random.u8(..16) == 0).then(|| Duration::from_micros(random.u64(1..20_000))),
            policy: policy(random),
            rungs: Rungs::new(random),
            cache: random.usize(..16),
            device: (random.u8(..8) != 0).then(|| random.usize(..2)),
            key: random.u8(..2),
            bytes_each: 1 << random.u8(..11),
            costs,
        }
    }

    /// Returns the size of these items, in the unit of sizes.
    pub(crate) fn size(&self, items: &Range<usize>) -> usize {
        if self.form.packs() { self.costs[items.clone()].iter().sum() } else { items.len() }
    }

    /// Returns the maximum number of attempts of one size in a row.
    pub(crate) fn repeats(&self) -> usize {
        let Rungs { release, wait, hooks, fallback } = self.rungs;
        let rungs = [release, wait.is_some(), hooks].map(usize::from).iter().sum::<usize>();
        let each = 2 + rungs;
        // In fallback the first size comes again, and it may also be the last one here.
        if fallback { each + 2 } else { each }
    }

    /// Returns the cost of the item at this index of the user's range.
    pub(crate) fn cost(&self, index: usize) -> usize {
        self.costs[index - self.offset]
    }

    /// Returns the user's range.
    pub(crate) fn whole(&self) -> Range<usize> {
        self.offset..self.offset + self.total
    }
}

impl Sizes {
    fn new(random: &mut Rng) -> Self {
        let multiple_of = if random.u8(..4) == 0 { random.usize(1..=5) } else { 1 };
        let min = if random.u8(..4) == 0 { random.usize(1..=6) } else { 1 };
        let floor = min.max(multiple_of).next_multiple_of(multiple_of);
        let initial = floor + random.usize(..60);
        let max = if random.bool() { floor + random.usize(..60) } else { MOST_COST };
        let max_attempts = if random.u8(..8) == 0 { random.usize(1..=6) } else { usize::MAX };
        Self { initial, min, max, multiple_of, max_attempts }
    }

    pub(crate) fn floor(&self) -> usize {
        self.min.max(self.multiple_of).next_multiple_of(self.multiple_of)
    }

    pub(crate) fn cap(&self) -> usize {
        self.initial.min(self.max) / self.multiple_of * self.multiple_of
    }
}

impl Rungs {
    fn new(random: &mut Rng) -> Self {
        Self {
            release: random.u8(..4) == 0,
            wait: (random.u8(..8) != 0).then(|| Duration::from_micros(random.u64(..8000))),
            hooks: random.bool(),
            fallback: random.u8(..4) == 0,
        }
    }

    pub(crate) fn ladder(&self) -> Ladder<'static> {
        let ladder =
            Ladder::default().release_and_retry(self.release).hooks(self.hooks).fallback(self.fallback);
        match self.wait {
            Some(wait) => ladder.wait(wait),
            None => ladder.without_waiting(),
        }
    }
}

fn policy(random: &mut Rng) -> Box<dyn Policy + Send + Sync> {
    match random.u8(..5) {
        0 => Box::new(Halve),
        1 => Box::new(Decay::new(random.f64().clamp(0.1, 0.95))),
        2 => Box::new(Bisect::within(random.f64().clamp(0.01, 0.5))),
        3 => Box::new(Adaptive::default()),
        _ => Box::new(Throughput::default()),
    }
}
