//! The frames of one thread, and the effect of its events on the rows.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::accounts::{DeviceCounters, Levels, Sum};
use super::rows::{DeviceId, Rows};
use super::sources::LineId;
use super::stays::Stays;

/// The profiled functions that one thread is in, with the current line of each.
///
/// Each instant belongs to one line of each frame. A block belongs to the current line of the innermost frame.
///
/// ```
/// use std::sync::Arc;
/// use toma_trace::Place;
/// use toma_trace::lines::{Rows, Source, Sources, Stack};
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

/// The line of a block, to be kept with the block until it is [freed](Stack::freed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Born(pub(crate) Option<LineId>);

impl Born {
    /// Returns the current line when the block was born, if there was one.
    #[must_use]
    pub fn line(self) -> Option<LineId> {
        self.0
    }
}

impl Stack {
    /// Creates the stack of a thread that is in no profiled function.
    #[must_use]
    pub fn new(rows: &Arc<Rows>) -> Self {
        Self { stays: Stays::new(rows), gradient_of: None }
    }

    /// Begins a function or a closure, or polls a task, at one of its lines. That is no hit of the line.
    pub fn enter(&mut self, line: LineId) {
        self.stays.enter(line, 0);
    }

    /// As [`enter`](Self::enter), for a function with separate lines, whose numbers are `shift` behind its other ones.
    /// For recursion both count as the same lines.
    pub fn enter_apart(&mut self, line: LineId, shift: u32) {
        self.stays.enter(line, shift);
    }

    /// Begins a line of the innermost frame.
    pub fn mark(&mut self, line: LineId) {
        self.stays.mark(line);
    }

    /// Records that a block was left, and that this line encloses it.
    ///
    /// The line becomes current before the next allocation or call, if no mark comes first.
    pub fn left_block(&mut self, enclosing: LineId) {
        self.stays.left_block(enclosing);
    }

    /// Ends the innermost frame: it returns, panics, or its task waits.
    ///
    /// Returns its current line, at which a task is resumed.
    pub fn leave(&mut self) -> Option<LineId> {
        self.stays.leave()
    }

    /// Adds the current stays of all lines to the rows, and continues the lines.
    ///
    /// Needed for tables that are made in the middle of functions, because rows contain only stays that have ended. A
    /// rise is then the higher one of the parts before and after.
    pub fn settle(&mut self) {
        self.stays.settle();
    }

    /// Returns the current line of the innermost frame, if the thread is in any.
    #[must_use]
    pub fn line(&self) -> Option<LineId> {
        self.stays.line()
    }

    /// Sets the line whose operator's gradient is computed from now on, or none. It is no frame.
    pub fn gradient_of(&mut self, line: Option<LineId>) {
        self.gradient_of = line;
    }

    /// Records an allocated block. The result is for [`freed`](Self::freed).
    ///
    /// A thread in no line helps the only one that is in a line. If more threads or none are in a line, its bytes are
    /// [outside](Rows::outside).
    ///
    /// # Panics
    ///
    /// This and all other methods that take a device panic if it is of other rows and these have none of its number.
    pub fn allocated(&mut self, device: DeviceId, bytes: u64) -> Born {
        self.stays.resume();
        let now = Levels { allocated: self.stays.rows.gauge(device).allocate(bytes), reserved: 0 };
        self.raise(device, now);
        if let Some(line) = self.gradient_of {
            self.counters(Some(line), device).backward.add(bytes);
        }
        let born = self.attribute(device, Sum::Allocated, bytes);
        self.stays.rows.reaches(device, now.allocated, self.gradient_of.or(born.0));
        self.counters(born.0, device).kept.add(bytes);
        born
    }

    /// Records that a block was freed, by any thread.
    pub fn freed(&mut self, device: DeviceId, bytes: u64, born: Born) {
        self.stays.rows.gauge(device).free(bytes);
        self.attribute(device, Sum::Freed, bytes);
        self.counters(born.0, device).kept.subtract(bytes);
    }

    /// Records that a block was freed that is older than the recording, and so is in no line's kept bytes.
    pub fn freed_older(&mut self, device: DeviceId, bytes: u64) {
        self.stays.rows.gauge(device).free(bytes);
        self.attribute(device, Sum::Freed, bytes);
    }

    /// Records that the memory of a storage leaves the device, while the storage lives on. `born` is `None` for a
    /// storage from before the recording.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toma_trace::Place;
    /// use toma_trace::lines::{Rows, Source, Sources, Stack};
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
        self.attribute(device, Sum::Offloaded, bytes);
        if let Some(born) = born {
            self.counters(born.0, device).kept.subtract(bytes);
        }
    }

    /// Records that the memory of a storage is back on the device. The line that keeps it is not the one that needs it.
    pub fn returned(&mut self, device: DeviceId, bytes: u64, born: Option<Born>) {
        self.stays.resume();
        let now = Levels { allocated: self.stays.rows.gauge(device).allocate(bytes), reserved: 0 };
        self.raise(device, now);
        let by = self.attribute(device, Sum::Fetched, bytes);
        self.stays.rows.reaches(device, now.allocated, by.0);
        if let Some(born) = born {
            self.counters(born.0, device).kept.add(bytes);
        }
    }

    /// Records that the allocator of a device had no memory for a block.
    pub fn out_of_memory(&mut self, device: DeviceId) {
        self.stays.resume();
        self.attribute(device, Sum::Ooms, 1);
    }

    /// Records that the allocator of a device has so many bytes reserved now.
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

    /// Adds to a sum of the line that the event belongs to. Returns that line.
    fn attribute(&mut self, device: DeviceId, sum: Sum, more: u64) -> Born {
        let (sum, index) = (sum as usize, device.index());
        if let Some(line) = self.stays.line() {
            self.stays.sums[index][sum] += more;
            return Born(Some(line));
        }
        let Some(helped) = self.stays.rows.only_profiling() else {
            self.counters(None, device).sums[sum].add(more);
            return Born(None);
        };
        helped.shared[index].helpers[sum].fetch_add(more, Relaxed);
        Born(Some(LineId(helped.line.load(Relaxed))))
    }

    /// Returns this thread's counters of a line, or those of events in no line.
    fn counters(&self, line: Option<LineId>, device: DeviceId) -> &DeviceCounters {
        let row = line.map_or(&self.stays.account.outside, |line| self.stays.account.lines.at(line.0));
        row.device(device.index(), self.stays.sums.len())
    }
}

impl Drop for Stack {
    /// Adds the stays of all frames, because the thread ends.
    fn drop(&mut self) {
        while self.leave().is_some() {}
        self.stays.account.give_back();
    }
}
