//! A running recording: marks and blocks of all threads, counted on their stacks.

mod failure;
mod filled;
mod here;
mod known;
mod listening;
mod makers;
mod moments;
mod moves;
mod names;
mod owner;
mod packed;
mod replay;
mod ring;
mod scopes;
mod shared;
mod thread;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

pub use failure::Living;
pub use filled::{filled, unreported};
pub use here::{Pause, pause};
pub use moves::{Moved, moves, moving};
pub use names::{NameId, name};
pub use owner::Owner;
pub use replay::Replayed;
pub use scopes::{Attempt, Phase, phase};
pub use shared::runs;
pub use thread::{allocated, ends, freed, node_begins, operator_begins, out_of_memory, reserved};

use self::failure::Failures;
use self::listening::SessionUse;
pub use self::listening::{Listening, MarkedLine, listen};
use self::makers::AllMakers;
use self::ring::Ring;
use self::shared::{NONE, NUMBER, RUNNING, Shared, running};

pub use crate::event::Node;
use crate::lines::{DeviceId, Lines, Rows};
use crate::place::Place;
use toma_core::marks::Busy;

/// Counts the effect of each line of marked functions on memory, on all threads, until it is finished or dropped.
///
/// Marks reach it by themselves. An allocator reports its blocks by [`allocated`], [`freed`] and [`out_of_memory`], on
/// the thread that requests them.
///
/// ```
/// # use toma_core::marks::{Function, Line, expansion::{Frame, line}};
/// use toma_trace::Place;
/// use toma_trace::counting::{self, Counting, Node};
///
/// # static STEP: Function = Function::new(
/// #     "step", "demo", "src/net.rs", &[Line::new(1, "fn step() {"), Line::new(2, "take(384)")],
/// # );
/// // `#[toma::profile] fn step() { take(384) }`, as the attribute marks it:
/// fn step() {
///     let _frame = Frame::enter(&STEP, 0);
///     line(&STEP, 1);
///     take(384)
/// }
///
/// fn take(bytes: u64) {
///     let owner = counting::allocated(0, 0x1000, bytes, Node::default());
///     counting::freed(0, 0x1000, bytes, owner);
/// }
///
/// let counting = Counting::of(&[(Place::HOST, 1000)]).start()?;
/// step();
/// let lines = counting.finish().lines();
/// assert_eq!(lines.figures("step", 2, &Place::HOST).unwrap().peak, 1384);
/// # Ok::<(), toma_core::marks::Busy>(())
/// ```
#[must_use = "nothing is counted once it is dropped"]
#[derive(Debug)]
pub struct Counting {
    _session: SessionUse,
    setup: Setup,
    shared: Arc<Shared>,
}

/// A recording that has not begun.
#[derive(Clone, Debug)]
#[must_use = "nothing is counted before it is started"]
pub struct Setup {
    /// Devices, with the bytes that are allocated on each already.
    pub devices: Vec<(Place, u64)>,
    /// The number of last events that are kept, from which a [trace](Counted::replay) is made.
    ///
    /// An event takes 32 bytes, which are allocated at the start. A birth, a death, a mark, a begin and an end are one
    /// event each.
    pub events: usize,
    /// Returns the next sequence number of the calling thread, which its next operator shares with its autograd node.
    /// With it, a recording knows for which line's operators a backward allocates.
    pub position: fn() -> Node,
    /// Runs on a thread when a line ends that has run a backward.
    pub after_backward: fn(),
    /// Runs on each thread when it records its first event.
    pub thread_begins: fn(),
}

/// The result of a recording.
#[derive(Clone, Debug)]
pub struct Counted(Arc<Shared>);

impl Setup {
    /// Starts to count.
    ///
    /// # Errors
    ///
    /// If another recording runs.
    pub fn start(self) -> Result<Counting, Busy> {
        let session = SessionUse::begin()?;
        // Before the lock, because it takes a while, and threads that begin to record wait for the lock.
        let shared = self.shared();
        let mut running = RUNNING.write().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return Err(Busy);
        }
        shared.run(&mut running);
        drop(running);
        Ok(Counting { _session: session, setup: self, shared })
    }

    fn shared(&self) -> Arc<Shared> {
        static LAST: AtomicU32 = AtomicU32::new(NONE);
        let number = LAST.fetch_add(1, Relaxed).wrapping_add(1).max(NONE + 1);
        let begun = Instant::now();
        let rows = Rows::new(&self.devices).clock(move || begun.elapsed());
        rows.prepare();
        Arc::new(Shared {
            number,
            rows: Arc::new(rows),
            known: Mutex::default(),
            ring: (self.events > 0).then(|| Ring::new(self.events)),
            births: AtomicU32::new(0),
            makers: AllMakers::default(),
            position: self.position,
            after_backward: self.after_backward,
            thread_begins: self.thread_begins,
            devices: self.devices.len(),
            failures: Failures::new(),
            threads: AtomicU32::new(0),
        })
    }
}

impl Counting {
    /// Returns the setup of a recording of these devices, with the bytes that are allocated on each already.
    pub fn of(devices: &[(Place, u64)]) -> Setup {
        Setup {
            devices: devices.to_owned(),
            events: 0,
            position: Node::default,
            after_backward: || (),
            thread_begins: || (),
        }
    }

    /// Returns the counts so far. Lines that still run are not in the rows.
    #[must_use]
    pub fn so_far(&self) -> Counted {
        Counted(Arc::clone(&self.shared))
    }

    /// Drops the counts so far, and continues with the bytes that are allocated now.
    ///
    /// Functions that run now are seen again at their next call.
    pub fn clear(&mut self) {
        let rows = &self.shared.rows;
        let now = rows.devices().map(|(device, place)| (place.clone(), rows.allocated_bytes(device)));
        self.setup.devices = now.collect();
        self.shared = self.setup.shared();
        self.shared.run(&mut RUNNING.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sets the bytes that are allocated on a device, by its index among those of [`of`](Self::of): other threads may
    /// have allocated some since its figure was read.
    ///
    /// # Panics
    ///
    /// If there is no such device.
    pub fn correct(&self, device: u8, bytes: u64) {
        self.shared.rows.correct(DeviceId(device.into()), bytes);
    }

    /// Ends the recording, and everything that this thread is in the middle of.
    #[must_use]
    pub fn finish(self) -> Counted {
        let shared = Arc::clone(&self.shared);
        drop(self);
        here::forget();
        Counted(shared)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        NUMBER.store(NONE, Release);
        RUNNING.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Counted {
    /// Returns the rows so far.
    #[must_use]
    pub fn lines(&self) -> Lines {
        self.0.lines()
    }

    /// Returns the devices that were given to [`of`](Counting::of).
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.rows.devices().map(|(_, place)| place)
    }

    /// Returns the most bytes on a device, by its index among those of [`of`](Counting::of), and the file and number of
    /// the line that reached them. In a backward it is the line of the operator whose gradient is computed. Memory in
    /// no line has the name of its attempt or phase.
    ///
    /// # Panics
    ///
    /// If there is no such device.
    #[must_use]
    pub fn peak(&self, device: u8) -> (u64, Option<String>) {
        let (bytes, line) = self.0.rows.peak(DeviceId(device.into()));
        (bytes, line.and_then(|line| self.0.known().position(line)))
    }

    /// Returns the events as a trace, if they were kept. `living` are the blocks that are alive, each with the index of
    /// its device among those of [`of`](Counting::of). Blocks that no event mentions are older.
    #[must_use]
    pub fn replay(&self, living: impl IntoIterator<Item = (u32, Living)>) -> Option<Replayed> {
        replay::replay(&self.0, living)
    }
}

/// Returns the name of a block without a name of its own, in the running recording: operator and line of its birth, as
/// far as they are known. `None` if it is older.
#[must_use]
pub fn origin(owner: Owner) -> Option<String> {
    running().and_then(|shared| filled::origin(&shared, owner))
}
