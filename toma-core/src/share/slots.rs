//! The places in memory where calls say what they do: one writer each, many readers.

use std::array;
use std::iter::successors;
use std::num::NonZeroU64;

use super::sync::{AtomicU64, FIRST_SLOTS, OnceLock, Ordering, fence};

/// A device, told by the hash of its name.
pub(super) type Device = NonZeroU64;

/// Each block has twice the slots of the one before it, so this is room for 16 million.
const BLOCKS: usize = 21;

/// What the slot of a call that rests is taken for. It is no device: one whose hash it were would see
/// company in those who rest, which costs it a retry.
const REST: u64 = u64::MAX;

/// Devices that each slot knows of: as many as there is room for on its cache lines.
const PLACES: usize = 8;

/// Where one call says what it does. Alone on its cache lines, because neighbors write theirs at every
/// attempt; two lines, because processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Slot {
    index: usize,
    /// The device of the call that has the slot, 0 while none has. [`REST`] while the call rests.
    taken_for: AtomicU64,
    /// The device on which an attempt of the call runs, 0 while none does.
    runs_on: AtomicU64,
    /// The attempts so far, of all calls that have had the slot.
    attempts: AtomicU64,
    /// The attempt around the current one, 0 for none.
    parent: AtomicU64,
    /// The attempt that is measured, 0 for none. Another than the current one is over.
    measured: AtomicU64,
    /// The call's place in the queue, 0 while it has none.
    pub(super) ticket: AtomicU64,
    /// The last attempt from here on each of a few devices, of whatever call: the end of the device's number
    /// and that of the attempt.
    visits: [AtomicU64; PLACES],
}

/// One attempt, for the attempts nested in it to name as their parent.
///
/// It means nothing any more when that attempt is over, so that one which is kept for too long does
/// no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node(NonZeroU64);

/// An attempt that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Runner {
    pub(super) node: Node,
    pub(super) device: Device,
}

/// All slots there are: never fewer again, as many as there ever were calls at the same time.
#[derive(Debug)]
pub(super) struct Slots {
    blocks: [OnceLock<Box<[Slot]>>; BLOCKS],
}

impl Node {
    const ATTEMPT_BITS: u32 = 40;
    const ATTEMPTS: u64 = (1 << Self::ATTEMPT_BITS) - 1;

    pub(super) fn new(index: usize, attempt: u64) -> Self {
        let attempt = attempt & Self::ATTEMPTS;
        let bits = (index as u64 + 1) << Self::ATTEMPT_BITS | attempt;
        Self(NonZeroU64::new(bits).expect("slots are counted from 1 here"))
    }

    fn index(self) -> usize {
        usize::try_from(self.0.get() >> Self::ATTEMPT_BITS).map_or(usize::MAX, |above| above - 1)
    }
}

impl Slot {
    fn new(index: usize) -> Self {
        Self {
            index,
            taken_for: AtomicU64::new(0),
            runs_on: AtomicU64::new(0),
            attempts: AtomicU64::new(0),
            parent: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            ticket: AtomicU64::new(0),
            visits: array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    fn take(&self, device: Device) -> bool {
        let Self { taken_for: call, .. } = self;
        // A look first, so that a search writes to no line of others.
        call.load(Ordering::Relaxed) == 0
            && call.compare_exchange(0, device.get(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Makes room for another call.
    pub(super) fn give_back(&self) {
        self.ticket.store(0, Ordering::Relaxed);
        self.taken_for.store(0, Ordering::Release);
    }

    /// The call does nothing until it [goes on](Self::go_on).
    pub(super) fn rest(&self) {
        self.taken_for.store(REST, Ordering::Relaxed);
    }

    pub(super) fn go_on(&self, device: Device) {
        self.taken_for.store(device.get(), Ordering::Relaxed);
    }

    /// The next attempt is about to begin, inside `parent`.
    #[inline]
    pub(super) fn renew(&self, parent: Option<Node>) {
        // Only the call that has the slot writes these.
        self.parent.store(parent.map_or(0, |Node(bits)| bits.get()), Ordering::Relaxed);
        self.attempts.store(self.attempts.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The current attempt, or the last one.
    #[inline]
    pub(super) fn node(&self) -> Node {
        Node::new(self.index, self.attempts.load(Ordering::Relaxed))
    }

    /// Leaves a trace of the current attempt, on `device`, that outlasts its call.
    #[inline]
    pub(super) fn visit(&self, device: Device) {
        let visit = Self::mark(device) | self.attempts.load(Ordering::Relaxed) & Node::ATTEMPTS;
        let place = self.visits.iter().find(|place| is_of(place, device));
        // Nobody needs to see this before what the attempt does to the device's memory, which those who
        // look have run into.
        place.unwrap_or_else(|| self.oldest()).store(visit, Ordering::Relaxed);
    }

    /// The place of the device that was visited longest ago, or none.
    #[cold]
    fn oldest(&self) -> &AtomicU64 {
        let attempt = |place: &&AtomicU64| place.load(Ordering::Relaxed) & Node::ATTEMPTS;
        self.visits.iter().min_by_key(attempt).expect("there are places")
    }

    /// The last attempt on the device, 0 when none is known.
    fn visit_of(&self, device: Device) -> u64 {
        let place = self.visits.iter().find(|place| is_of(place, device));
        place.map_or(0, |place| place.load(Ordering::Relaxed) & Node::ATTEMPTS)
    }

    /// What tells the visits of a device.
    fn mark(device: Device) -> u64 {
        device.get() << Node::ATTEMPT_BITS
    }

    /// Says that an attempt runs, before anything that the caller reads afterwards.
    #[inline]
    pub(super) fn run_on(&self, device: Device) {
        self.runs_on.store(device.get(), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Says that none runs, before anything that the caller reads afterwards.
    #[inline]
    pub(super) fn stop(&self) {
        self.runs_on.store(0, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    pub(super) fn device(&self) -> Option<Device> {
        Device::new(self.runs_on.load(Ordering::Acquire))
    }

    /// Says that the current attempt is measured, before anything that the caller reads afterwards.
    pub(super) fn measure(&self) {
        self.measured.store(self.attempts.load(Ordering::Relaxed), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// The current attempt is measured no more.
    pub(super) fn measured(&self) {
        self.measured.store(0, Ordering::Release);
    }

    /// Whether an attempt that is measured runs on `device`.
    fn measures(&self, device: Device) -> bool {
        let measured = self.measured.load(Ordering::Acquire);
        measured != 0 && measured == self.attempts.load(Ordering::Relaxed) && self.device() == Some(device)
    }

    /// The attempt that runs, if one does.
    pub(super) fn runner(&self) -> Option<Runner> {
        // The device first: a later attempt of the slot must not pass for the one that ran here.
        let device = self.device()?;
        Some(Runner { node: self.node(), device })
    }
}

/// Whether a place is of the device's visits.
#[inline]
fn is_of(place: &AtomicU64, device: Device) -> bool {
    place.load(Ordering::Relaxed) & !Node::ATTEMPTS == Slot::mark(device)
}

impl Slots {
    pub(super) fn new() -> Self {
        Self { blocks: array::from_fn(|_| OnceLock::new()) }
    }

    /// A slot that nobody has; the `likely` ones are tried first.
    pub(super) fn take(&self, device: Device, likely: &[usize]) -> Option<&Slot> {
        let likely = likely.iter().filter_map(|&index| self.get(index));
        likely.chain(self.iter()).find(|slot| slot.take(device))
    }

    /// Adds a block. Not to be called by two at a time.
    pub(super) fn grow(&self) {
        let at = self.blocks.iter().position(|block| block.get().is_none());
        let at = at.expect("fewer calls than memory has room for");
        let from = Self::begin(at);
        let block = (from..Self::begin(at + 1)).map(Slot::new).collect();
        assert!(self.blocks[at].set(block).is_ok(), "one thread adds slots at a time");
    }

    /// The index of a block's first slot.
    fn begin(block: usize) -> usize {
        FIRST_SLOTS * ((1 << block) - 1)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Slot> {
        let block = (index / FIRST_SLOTS).checked_add(1)?.ilog2() as usize;
        self.blocks.get(block)?.get()?.get(index - Self::begin(block))
    }

    pub(super) fn of(&self, node: Node) -> Option<&Slot> {
        self.get(node.index())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.blocks.iter().map_while(OnceLock::get).flatten()
    }

    /// Whether another call works on the device, now or between two attempts, but for those around and
    /// those that rest.
    pub(super) fn have_company(&self, slot: &Slot, device: Device) -> bool {
        let mut calls = self.iter().filter(|other| other.taken_for.load(Ordering::Relaxed) == device.get());
        calls.any(|other| other.index != slot.index && !self.is_around(other.node(), slot))
    }

    /// All visits to the device but those from `slot`, in one number: 0 when there were none, and a larger
    /// one after each. Smaller when a slot has forgotten the device.
    pub(super) fn visits(&self, slot: &Slot, device: Device) -> u64 {
        let is_used = |other: &&Slot| other.attempts.load(Ordering::Relaxed) > 0;
        let others = self.iter().filter(|other| other.index != slot.index).filter(is_used);
        others.fold(0, |sum, other| sum.wrapping_add(other.visit_of(device)))
    }

    /// Whether an attempt around the one of `slot` is on the device.
    pub(super) fn is_inside(&self, slot: &Slot, device: Device) -> bool {
        self.around(slot).any(|node| self.device_of(node) == Some(device))
    }

    /// Whether another attempt on the device is measured, be it around or beside that of `slot`.
    pub(super) fn measure_another(&self, slot: &Slot, device: Device) -> bool {
        self.iter().any(|other| other.index != slot.index && other.measures(device))
    }

    /// The attempts that run now.
    pub(super) fn running(&self) -> impl Iterator<Item = Runner> {
        self.iter().filter_map(Slot::runner)
    }

    /// The device on which this attempt runs, if it still does.
    pub(super) fn device_of(&self, node: Node) -> Option<Device> {
        let runner = self.of(node).and_then(Slot::runner)?;
        (runner.node == node).then_some(runner.device)
    }

    /// Whether `node` is one of those [around](Self::around).
    pub(super) fn is_around(&self, node: Node, slot: &Slot) -> bool {
        self.around(slot).any(|around| around == node)
    }

    /// The attempts around the current one of `slot`, the nearest first.
    ///
    /// It ends: an attempt names one that began before it.
    pub(super) fn around(&self, slot: &Slot) -> impl Iterator<Item = Node> {
        let parent = |slot: &Slot| {
            let node = Node(NonZeroU64::new(slot.parent.load(Ordering::Relaxed))?);
            self.of(node).filter(|_| self.device_of(node).is_some())
        };
        successors(parent(slot), move |slot| parent(slot)).map(Slot::node)
    }
}
