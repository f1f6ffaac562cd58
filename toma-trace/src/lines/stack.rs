//! The frames of one thread, and what its events mean for the rows.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::accounts::{DeviceCounters, Levels};
use super::rows::{DeviceId, Rows};
use super::sources::LineId;
use super::stays::{Stays, Sums};

/// The profiled functions that one thread is in, and the line in force in each.
///
/// Each instant belongs to one line of each frame. A block belongs to the line in force in the innermost.
///
/// ```
/// # mod toma { pub use toma_trace as trace; }
/// use std::sync::Arc;
/// use toma::trace::Place;
/// use toma::trace::lines::{Rows, Source, Sources, Stack};
///
/// let mut sources = Sources::new();
/// let first = sources.add(Source::new("step", "src/net.rs").line(9, "fn step() {").line(10, "let x = f();"));
/// let rows = Arc::new(Rows::new(&[(Place::HOST, 100)]));
/// let host = rows.device(&Place::HOST).expect("a device of these rows");
///
/// let mut stack = Stack::new(&rows);
/// stack.enter(first);
/// stack.mark(first.nth(1));
/// let born = stack.allocated(host, 24);
/// stack.leave();
/// stack.freed(host, 24, born);
///
/// let figures = rows.by_line()[&first.nth(1)].devices[&host];
/// assert_eq!((figures.peak, figures.rise, figures.allocated, figures.kept), (124, 24, 24, 0));
/// ```
#[derive(Debug)]
pub struct Stack {
    stays: Stays,
    gradient_of: Option<LineId>,
}

/// A block's line, to be kept with the block until it is [freed](Stack::freed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Born(pub(crate) Option<LineId>);

impl Born {
    /// The line in force when the block was born, if there was one.
    #[must_use]
    pub fn line(self) -> Option<LineId> {
        self.0
    }
}

impl Stack {
    /// The stack of a thread that is in no profiled function.
    #[must_use]
    pub fn new(rows: &Arc<Rows>) -> Self {
        Self { stays: Stays::new(rows), gradient_of: None }
    }

    /// A function begins, or a closure, or a task is polled, at a line of it. That is no hit of the line.
    pub fn enter(&mut self, line: LineId) {
        self.stays.enter(line, 0);
    }

    /// The same, of a function that has lines of its own here, so many numbers behind its others. They are the same
    /// lines where recursion counts.
    pub fn enter_apart(&mut self, line: LineId, shift: u32) {
        self.stays.enter(line, shift);
    }

    /// A line of the innermost frame begins.
    pub fn mark(&mut self, line: LineId) {
        self.stays.mark(line);
    }

    /// A block was left, and the line that encloses it is this one.
    ///
    /// It comes into force before the next allocation or call, if no mark comes first.
    pub fn left_block(&mut self, enclosing: LineId) {
        self.stays.left_block(enclosing);
    }

    /// The innermost frame ends: it returns, panics, or its task waits.
    ///
    /// Answers the line in force in it, at which a task goes on.
    pub fn leave(&mut self) -> Option<LineId> {
        self.stays.leave()
    }

    /// Puts into the rows what was done so far in the lines in force, which go on.
    ///
    /// It is for tables that are made in the middle of functions: rows are of stays that have ended. A rise is then that
    /// of the parts before and after.
    pub fn settle(&mut self) {
        self.stays.settle();
    }

    /// The line in force in the innermost frame, if the thread is in any.
    #[must_use]
    pub fn line(&self) -> Option<LineId> {
        self.stays.line()
    }

    /// The line whose operator's gradient is computed from now on, or none. It is no frame.
    pub fn gradient_of(&mut self, line: Option<LineId>) {
        self.gradient_of = line;
    }

    /// A block was allocated. The answer is for [`freed`](Self::freed).
    ///
    /// A thread in no line helps the only one that is in a line. If there are more or none, its bytes are
    /// [outside](Rows::outside).
    ///
    /// # Panics
    ///
    /// This and all others that take a device: when it is another's and there is none of its number.
    pub fn allocated(&mut self, device: DeviceId, bytes: u64) -> Born {
        self.stays.resume();
        let now = Levels { allocated: self.stays.rows.gauge(device).allocate(bytes), reserved: 0 };
        self.raise(device, now);
        if let Some(line) = self.gradient_of {
            self.counters(Some(line), device).backward.add(bytes);
        }
        let born = self.attribute(device, Sums { allocated: bytes, ..Sums::default() });
        self.stays.rows.reaches(device, now.allocated, self.gradient_of.or(born.0));
        self.counters(born.0, device).kept.add(bytes);
        born
    }

    /// A block was freed, by whichever thread.
    pub fn freed(&mut self, device: DeviceId, bytes: u64, born: Born) {
        self.stays.rows.gauge(device).free(bytes);
        self.attribute(device, Sums { freed: bytes, ..Sums::default() });
        self.counters(born.0, device).kept.subtract(bytes);
    }

    /// A block was freed that was allocated before the recording, and so is in no line's bytes kept.
    pub fn freed_older(&mut self, device: DeviceId, bytes: u64) {
        self.stays.rows.gauge(device).free(bytes);
        self.attribute(device, Sums { freed: bytes, ..Sums::default() });
    }

    /// The memory of a storage leaves the device, and the storage lives on. It was born so, or before the recording.
    ///
    /// ```
    /// # mod toma { pub use toma_trace as trace; }
    /// use std::sync::Arc;
    /// use toma::trace::Place;
    /// use toma::trace::lines::{Rows, Source, Sources, Stack};
    ///
    /// let mut sources = Sources::new();
    /// let first = sources.add(Source::new("step", "src/net.rs").line(9, "let w = f();").line(10, "g(&w)"));
    /// let rows = Arc::new(Rows::new(&[(Place::HOST, 0)]));
    /// let host = rows.device(&Place::HOST).expect("a device of these rows");
    ///
    /// let mut stack = Stack::new(&rows);
    /// stack.enter(first);
    /// let born = stack.allocated(host, 24);
    /// stack.left(host, 24, Some(born));
    /// stack.mark(first.nth(1));
    /// stack.returned(host, 24, Some(born));
    /// stack.leave();
    ///
    /// let rows = rows.by_line();
    /// let [made, used] = [0, 1].map(|line| rows[&first.nth(line)].devices[&host]);
    /// assert_eq!((made.allocated, made.offloaded, made.kept), (24, 24, 24));
    /// assert_eq!((used.allocated, used.fetched, used.kept), (0, 24, 0));
    /// ```
    pub fn left(&mut self, device: DeviceId, bytes: u64, born: Option<Born>) {
        self.stays.rows.gauge(device).free(bytes);
        self.attribute(device, Sums { offloaded: bytes, ..Sums::default() });
        if let Some(born) = born {
            self.counters(born.0, device).kept.subtract(bytes);
        }
    }

    /// The memory of a storage is back on the device. The line that needs it is not the one that keeps it.
    pub fn returned(&mut self, device: DeviceId, bytes: u64, born: Option<Born>) {
        self.stays.resume();
        let now = Levels { allocated: self.stays.rows.gauge(device).allocate(bytes), reserved: 0 };
        self.raise(device, now);
        let by = self.attribute(device, Sums { fetched: bytes, ..Sums::default() });
        self.stays.rows.reaches(device, now.allocated, by.0);
        if let Some(born) = born {
            self.counters(born.0, device).kept.add(bytes);
        }
    }

    /// The allocator of a device had no memory for a block.
    pub fn out_of_memory(&mut self, device: DeviceId) {
        self.stays.resume();
        self.attribute(device, Sums { ooms: 1, ..Sums::default() });
    }

    /// The allocator of a device has so many bytes reserved now.
    pub fn reserved(&mut self, device: DeviceId, total: u64) {
        self.stays.rows.gauge(device).reserve(total);
        self.raise(device, Levels { allocated: 0, reserved: total });
    }

    /// Raises the watermarks of all threads that watch.
    fn raise(&self, device: DeviceId, to: Levels) {
        for account in self.stays.rows.accounts.iter().filter(|account| account.is_profiling()) {
            account.shared[device.index()].watermark.raise(to);
        }
    }

    /// Adds what was done to the sums it belongs to. Answers the line it is in.
    fn attribute(&mut self, device: DeviceId, done: Sums) -> Born {
        if let Some(line) = self.stays.line() {
            self.stays.sums[device.index()].add(done);
            return Born(Some(line));
        }
        let Some(helped) = self.stays.rows.only_profiling() else {
            let outside = self.counters(None, device);
            outside.allocated.add(done.allocated);
            outside.freed.add(done.freed);
            outside.fetched.add(done.fetched);
            outside.offloaded.add(done.offloaded);
            outside.ooms.add(done.ooms);
            return Born(None);
        };
        let helpers = &helped.shared[device.index()].helpers;
        helpers.allocated.fetch_add(done.allocated, Relaxed);
        helpers.freed.fetch_add(done.freed, Relaxed);
        helpers.fetched.fetch_add(done.fetched, Relaxed);
        helpers.offloaded.fetch_add(done.offloaded, Relaxed);
        helpers.ooms.fetch_add(done.ooms, Relaxed);
        Born(Some(LineId(helped.line.load(Relaxed))))
    }

    /// This thread's counters of a line, or of what is outside.
    fn counters(&self, line: Option<LineId>, device: DeviceId) -> &DeviceCounters {
        let row = line.map_or(&self.stays.account.outside, |line| self.stays.account.lines.at(line.0));
        row.device(device.index(), self.stays.sums.len())
    }
}

impl Drop for Stack {
    /// The thread ends, and what its frames did is counted.
    fn drop(&mut self) {
        while self.leave().is_some() {}
        self.stays.account.give_back();
    }
}
