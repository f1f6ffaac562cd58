//! Effects of a thread's memory events on the rows.

use std::sync::atomic::Ordering::Relaxed;

use super::accounts::{DeviceCounters, Levels, Sum};
use super::rows::DeviceId;
use super::sources::LineId;
use super::stack::Stack;

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
    /// Sets the line whose operator's gradient is computed from now on, or none. It is no frame.
    pub fn gradient_of(&mut self, line: Option<LineId>) {
        self.gradient_of = line;
    }

    /// Records an allocated block. The result is for [`freed`](Self::freed).
    ///
    /// A thread in no line helps the only one that is in a line. If more threads or none are in a line, its bytes are
    /// [outside](super::Rows::outside).
    ///
    /// # Panics
    ///
    /// This and all other methods that take a device panic if it is of other rows and these have none of its number.
    pub fn allocated(&mut self, device: DeviceId, bytes: u64) -> Born {
        self.resume();
        let now = Levels { allocated: self.rows.gauge(device).allocate(bytes), reserved: 0 };
        self.raise(device, now);
        if let Some(line) = self.gradient_of {
            self.counters(Some(line), device).backward.add(bytes);
        }
        let born = self.attribute(device, Sum::Allocated, bytes);
        self.rows.reaches(device, now.allocated, self.gradient_of.or(born.0));
        self.counters(born.0, device).kept.add(bytes);
        born
    }

    /// Records that a block was freed, by any thread. `born` is `None` for a block that is older than the recording,
    /// and so is in no line's kept bytes.
    pub fn freed(&mut self, device: DeviceId, bytes: u64, born: Option<Born>) {
        self.goes(device, bytes, born, Sum::Freed);
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
        self.goes(device, bytes, born, Sum::Offloaded);
    }

    fn goes(&mut self, device: DeviceId, bytes: u64, born: Option<Born>, sum: Sum) {
        self.rows.gauge(device).free(bytes);
        self.attribute(device, sum, bytes);
        if let Some(born) = born {
            self.counters(born.0, device).kept.subtract(bytes);
        }
    }

    /// Records that the memory of a storage is back on the device. The line that keeps it is not the one that needs it.
    pub fn returned(&mut self, device: DeviceId, bytes: u64, born: Option<Born>) {
        self.resume();
        let now = Levels { allocated: self.rows.gauge(device).allocate(bytes), reserved: 0 };
        self.raise(device, now);
        let by = self.attribute(device, Sum::Fetched, bytes);
        self.rows.reaches(device, now.allocated, by.0);
        if let Some(born) = born {
            self.counters(born.0, device).kept.add(bytes);
        }
    }

    /// Records that the allocator of a device had no memory for a block.
    pub fn out_of_memory(&mut self, device: DeviceId) {
        self.resume();
        self.attribute(device, Sum::Ooms, 1);
    }

    /// Records that the allocator of a device has so many bytes reserved now.
    pub fn reserved(&mut self, device: DeviceId, total: u64) {
        self.rows.gauge(device).reserve(total);
        self.raise(device, Levels { allocated: 0, reserved: total });
    }

    /// Raises the watermarks of all threads that watch.
    fn raise(&self, device: DeviceId, to: Levels) {
        for account in self.rows.accounts.iter().filter(|account| account.is_profiling()) {
            account.shared[device.index()].watermark.raise(to);
        }
    }

    /// Adds to a sum of the line that the event belongs to. Returns that line.
    fn attribute(&mut self, device: DeviceId, sum: Sum, more: u64) -> Born {
        let (sum, index) = (sum as usize, device.index());
        if let Some(line) = self.line() {
            self.sums[index][sum] += more;
            return Born(Some(line));
        }
        let Some(helped) = self.rows.only_profiling() else {
            self.counters(None, device).sums[sum].add(more);
            return Born(None);
        };
        helped.shared[index].helpers[sum].fetch_add(more, Relaxed);
        Born(Some(LineId(helped.line.load(Relaxed))))
    }

    /// Returns this thread's counters of a line, or those of events in no line.
    fn counters(&self, line: Option<LineId>, device: DeviceId) -> &DeviceCounters {
        let row = line.map_or(&self.account.outside, |line| self.account.lines.at(line.0));
        row.device(device.index(), self.sums.len())
    }
}
