//! The slow, obvious twin: predicts a call step by step from the rules alone.
//!
//! It shares nothing with the library. Where the library has a state machine, policies behind a trait and a cache, the
//! twin has two loops, one `match` and a few numbers.

use std::mem;

use crate::rules::plan::Plan;

/// Sizes of one call, as the user gives them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) initial: usize,
    pub(crate) min: usize,
    pub(crate) max: usize,
    pub(crate) multiple_of: usize,
    pub(crate) max_attempts: usize,
}

/// Outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Success,
    OutOfMemory,
    Transient,
    Poisoned,
    Other,
}

/// Environment of the attempts.
pub(crate) trait World {
    /// Returns the outcome of attempt `number` (from 0) at these items.
    fn fate(&mut self, number: usize, start: usize, end: usize) -> Fate;

    /// Returns true if the free memory after attempt `number` is below the requested bytes, or below a tenth of the
    /// total.
    fn is_memory_low(&self, number: usize) -> bool;

    /// Returns true if attempt `number` fails by an error, false for a panic.
    fn is_error(&self, _number: usize) -> bool {
        true
    }

    /// Returns the enabled rungs of the ladder, apart from smaller sizes.
    fn rungs(&self) -> Rungs {
        Rungs::default()
    }

    /// Returns true if others, which wait for nothing, use the device from the middle of attempt `number` on.
    fn others(&self, _number: usize) -> bool {
        false
    }

    /// Returns true if those others still use the device when attempt `number` has ended.
    fn others_stay(&self, number: usize) -> bool {
        self.others(number)
    }

    /// Called before an attempt begins; `_inside` describes the attempt to loops nested in it.
    fn enter(&mut self, _inside: Enclosing) {}

    /// Returns the attempt that encloses the call, if that attempt has a turn on the same device.
    fn enclosing(&self) -> Option<Enclosing> {
        None
    }

    /// Returns true if attempt `number` offers a leaner plan.
    fn offers(&self, _number: usize) -> bool {
        false
    }

    /// Returns true if the offer of attempt `number` has a leaner plan.
    fn leans(&self, _number: usize) -> bool {
        false
    }

    /// Returns true if an earlier attempt of the call site has offered a plan.
    fn has_offered(&self) -> bool {
        false
    }

    /// Returns true if hooks release memory after attempt `number`.
    fn hooks_give(&self, _number: usize) -> bool {
        false
    }
}

/// An attempt on the device, as loops inside it see it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Enclosing {
    /// Others use the device as the attempt begins.
    pub(crate) others: bool,
    /// The attempt will be redone with the device to itself after contention.
    pub(crate) promises: bool,
    /// True if it is retried after an out-of-memory and after a transient failure: such panics stay silent.
    pub(crate) retries: [bool; 2],
}

/// Rungs of the ladder, apart from smaller sizes.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each rung")]
pub(crate) struct Rungs {
    pub(crate) release: bool,
    pub(crate) wait: bool,
    pub(crate) hooks: bool,
    pub(crate) fallback: bool,
}

/// Learned results of earlier calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Known {
    pub(crate) settled: usize,
    pub(crate) bounds: Bounds,
}

/// The newest observations that do not contradict each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) works: Option<usize>,
    pub(crate) fails: Option<usize>,
}

/// Ending of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Done,
    /// The failure of this attempt goes through.
    Passed(usize),
    /// The failure of this attempt gives way to the enclosing one.
    GaveWay(usize),
    /// The policy returned the first size after a failure of the second one, and the first is not smaller.
    NotSmaller(usize, usize),
}

/// One attempt that a call must make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Attempt {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) fate: Fate,
}

/// Everything that a call must do.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) end: End,
    /// Learned results that this call leaves in the cache.
    pub(crate) learned: Option<Known>,
    /// Attempts after which hooks are asked.
    pub(crate) asked: Vec<usize>,
    /// Attempts whose offer is asked for a leaner plan.
    pub(crate) leaned: Vec<usize>,
}

/// Number of items of a batch, which is done after one success.
pub(crate) const BATCH: usize = usize::MAX;

/// Returns the story of a call with `total` items.
pub(crate) fn replay(
    total: usize,
    rules: &Rules,
    plan: Plan,
    known: Option<Known>,
    world: &mut dyn World,
) -> Story {
    let (floor, cap) = (rules.floor(), rules.cap());
    let start = known.map_or(cap, |known| rules.fit(known.settled));
    assert!((floor..=cap).contains(&start), "the twin starts at {start}, not in {floor}..={cap}");
    let mut replayer = Replayer {
        rules: *rules,
        plan,
        bounds: known.unwrap_or_default().bounds,
        step: start,
        shrunk: false,
        settled: None,
        attempts: Vec::new(),
        fallen: false,
        others: world.enclosing().is_some_and(|enclosing| enclosing.others),
        have_met: false,
        turn: Turn::Shared,
        after_contention: false,
        backoff: (0, 0),
        offers: false,
        asked: Vec::new(),
        leaned: Vec::new(),
    };
    let (mut best, mut position, mut size) = (start, 0, start.min(total));
    while position < total {
        let left = total - position;
        replayer.step = rules.fit(plan.advance(replayer.bounds, [size, replayer.step, left]));
        if position == 0 {
            replayer.offers = world.has_offered() && replayer.step.min(total) <= floor;
        }
        size = match replayer.piece(position, left, world) {
            Ok(size) => size,
            Err(end) => return replayer.story(end),
        };
        replayer.bounds.succeeded(size);
        // Without a failure nothing is settled, except a probe that went further than any before.
        if !replayer.fallen && size == replayer.step && (replayer.shrunk || size > best) {
            replayer.settled = Some(size);
            best = size;
        }
        position = if total == BATCH { total } else { position + size };
    }
    replayer.story(End::Done)
}

impl Rules {
    pub(crate) fn floor(&self) -> usize {
        self.min.max(self.multiple_of).next_multiple_of(self.multiple_of)
    }

    pub(crate) fn cap(&self) -> usize {
        self.round(self.initial.min(self.max))
    }

    fn fit(&self, size: usize) -> usize {
        self.round(size).clamp(self.floor(), self.cap())
    }

    fn round(&self, size: usize) -> usize {
        size / self.multiple_of * self.multiple_of
    }
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Replayer {
    rules: Rules,
    plan: Plan,
    bounds: Bounds,
    step: usize,
    shrunk: bool,
    settled: Option<usize>,
    attempts: Vec<Attempt>,
    /// The call is in fallback.
    fallen: bool,
    /// Others use the device.
    others: bool,
    /// Others have used the device while an attempt ran.
    have_met: bool,
    /// Turn of the coming attempt on the device.
    turn: Turn,
    /// The piece has failed under contention.
    after_contention: bool,
    /// Number of pieces for which the call still queues for an exclusive turn, and that number at its last reset.
    backoff: (usize, usize),
    /// Attempts of the call are known to offer leaner plans.
    offers: bool,
    asked: Vec<usize>,
    leaned: Vec<usize>,
}

/// Way in which an attempt shares its device.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    Shared,
    /// The attempt waits until the others have gone.
    Queued,
    /// The turn is kept until the piece is done.
    Exclusive,
}

/// Rungs that have been used for a piece at the same size.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each rung")]
struct Spent {
    again: bool,
    released: bool,
    exclusive: bool,
    /// Used once per piece, not per size.
    leaned: bool,
    asked: bool,
}

/// Circumstances of an attempt, and the promise made before it.
#[derive(Clone, Copy)]
struct Met {
    at_floor: bool,
    contended: bool,
    promised: bool,
}

impl Replayer {
    /// Makes the attempts at the piece that begins at `start`, and returns the size that succeeded.
    fn piece(&mut self, start: usize, left: usize, world: &mut dyn World) -> Result<usize, End> {
        let (mut tries, mut spent) = (0, Spent::default());
        loop {
            let size = self.step.min(left);
            let at_floor = size <= self.rules.floor();
            let (number, end) = (self.attempts.len(), start + size);
            let mut met = self.enter(spent, at_floor, tries, world);
            let fate = world.fate(number, start, end);
            self.attempts.push(Attempt { start, end, fate });
            let came = world.others(number) && !self.fallen;
            self.others = world.others_stay(number) && !self.fallen;
            self.have_met |= came;
            self.offers |= world.offers(number);
            met.contended |= came;
            tries += 1;
            let is_memory = match fate {
                Fate::Success => {
                    self.piece_done();
                    return Ok(size);
                }
                Fate::Poisoned | Fate::Other => return Err(End::Passed(number)),
                Fate::Transient => world.is_memory_low(number),
                Fate::OutOfMemory => true,
            };
            let may_go_on = tries < self.rules.max_attempts;
            if may_go_on && fate == Fate::Transient && !spent.again {
                spent.again = true;
                continue;
            }
            if is_memory && met.contended && gives_way(number, fate, world) {
                return Err(End::GaveWay(number));
            }
            let climbs = may_go_on && is_memory && !self.fallen;
            if climbs && self.same_size(&mut spent, met, number, world) {
                continue;
            }
            if is_memory {
                // A call that ends out of memory leaves no size in the cache, because it would pin the next call.
                self.settled = None;
            }
            if climbs && at_floor && world.rungs().fallback {
                self.fall_back();
                spent = Spent::default();
                continue;
            }
            if !may_go_on || !is_memory || at_floor {
                return Err(End::Passed(number));
            }
            self.bounds.failed(size);
            let answer = self.plan.shrink(self.bounds, [size, self.step, left]);
            if answer >= size {
                return Err(End::NotSmaller(answer, size));
            }
            self.step = self.rules.fit(answer);
            self.shrunk = true;
            spent = Spent { leaned: spent.leaned, asked: spent.asked, ..Spent::default() };
        }
    }

    /// Called before an attempt: if an exclusive turn is due, waits for it, after which no others use the device.
    fn enter(&mut self, spent: Spent, at_floor: bool, tries: usize, world: &mut dyn World) -> Met {
        let rungs = world.rungs();
        if self.turn == Turn::Shared && self.backoff.0 > 0 {
            self.turn = Turn::Queued;
        }
        if self.turn == Turn::Queued {
            (self.turn, self.others) = (Turn::Exclusive, false);
        }
        let promised = !at_floor
            || rungs.release && !spent.released
            || rungs.wait && !spent.exclusive && self.have_met
            || self.offers && !self.fallen && !spent.leaned
            || rungs.hooks && !spent.asked
            || rungs.fallback;
        let attempts_left = tries + 1 < self.rules.max_attempts;
        world.enter(Enclosing {
            others: self.others,
            promises: rungs.wait && attempts_left && !spent.exclusive && self.turn == Turn::Shared,
            retries: [promised, promised || !spent.again].map(|retries| retries && attempts_left),
        });
        Met { at_floor, contended: self.others, promised }
    }

    /// Called after a failure: returns true if a rung retries the same size.
    fn same_size(&mut self, spent: &mut Spent, met: Met, number: usize, world: &dyn World) -> bool {
        let rungs = world.rungs();
        if !met.promised && !world.is_error(number) {
            // The panic has already been printed.
            return false;
        }
        if rungs.release && !spent.released {
            spent.released = true;
            return true;
        }
        if rungs.wait && met.contended && !spent.exclusive {
            (spent.exclusive, self.turn, self.after_contention) = (true, Turn::Queued, true);
            return true;
        }
        let leaned = !spent.leaned && world.offers(number);
        if leaned {
            spent.leaned = true;
            self.leaned.push(number);
            if world.leans(number) {
                return true;
            }
        }
        if rungs.hooks && !spent.asked {
            spent.asked = true;
            self.asked.push(number);
            return world.hooks_give(number) || met.at_floor && !rungs.fallback;
        }
        // The failure is no longer available once a plan was asked.
        leaned && met.at_floor && !rungs.fallback
    }

    fn fall_back(&mut self) {
        (self.fallen, self.others, self.after_contention) = (true, false, false);
        (self.turn, self.backoff) = (Turn::Shared, (0, 0));
        (self.step, self.bounds) = (self.rules.cap(), Bounds::default());
    }

    fn piece_done(&mut self) {
        let (left, last) = self.backoff;
        if mem::take(&mut self.after_contention) {
            let next = (2 * last).clamp(1, 64);
            self.backoff = (next, next);
        } else if self.turn == Turn::Exclusive {
            self.backoff.0 = left - 1;
        }
        self.turn = Turn::Shared;
    }

    fn story(self, end: End) -> Story {
        let bounds = self.bounds;
        let learned = self.settled.map(|settled| Known { settled, bounds });
        let Self { attempts, asked, leaned, .. } = self;
        Story { attempts, end, learned, asked, leaned }
    }
}

/// Returns true if a contended failure is left to the enclosing attempt: a panic only if it stays silent there.
fn gives_way(number: usize, fate: Fate, world: &dyn World) -> bool {
    world.enclosing().is_some_and(|Enclosing { promises, retries, .. }| {
        let is_silent = retries[usize::from(fate == Fate::Transient)];
        promises && (world.is_error(number) || is_silent)
    })
}

impl Bounds {
    fn succeeded(&mut self, size: usize) {
        if self.works.is_none_or(|works| works < size) {
            self.works = Some(size);
        }
        if self.fails.is_some_and(|fails| fails <= size) {
            self.fails = None;
        }
    }

    fn failed(&mut self, size: usize) {
        if self.fails.is_none_or(|fails| fails > size) {
            self.fails = Some(size);
        }
        if self.works.is_some_and(|works| works >= size) {
            self.works = None;
        }
    }
}
