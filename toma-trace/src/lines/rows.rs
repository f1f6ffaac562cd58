//! Rows: the effect of each line on the memory of each device.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use super::accounts::{Account, Accounts, DeviceCounters, Gauge, LineCounters, Sum};
use super::sources::LineId;
use crate::place::Place;

/// Counts the effects of lines while they run.
///
/// Each thread reports its events to a [`Stack`](super::Stack) of its own. No call waits for another, so calls may be
/// made in an allocator's hook.
pub struct Rows {
    pub(super) devices: Vec<Gauge>,
    /// The highest level of each device.
    highest: Vec<DevicePeak>,
    places: Vec<Place>,
    pub(super) accounts: Accounts,
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
}

/// The most bytes on a device, and the line that reached them.
#[derive(Debug, Default)]
struct DevicePeak {
    bytes: AtomicU64,
    /// The line plus 1; 0 is no line.
    line: AtomicU32,
}

/// Identifies a device of one [`Rows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub(crate) u32);

/// The effect of a line, in all its stays.
///
/// A *stay* is one execution of a line in one frame, from its mark to the next. Calls made by the line belong to it. If
/// a block was left and memory is allocated before the next mark, another stay of the enclosing line begins. Sums are
/// over stays that are inside no other stay of the same line: recursion counts once.
///
/// ```
/// use toma_trace::lines::Lines;
///
/// /// Prints how often each line ran.
/// fn print(lines: &Lines) {
///     for (file, number, text) in lines.iter() {
///         let hits = lines.row(file, number).map_or(0, |row| row.hits);
///         println!("{hits:>8} {text}");
///     }
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Number of times that its mark was passed. The line at which a function begins has none.
    pub hits: u64,
    /// Number of stays that have ended. Without one the line never ran.
    pub stays: u64,
    /// Time of its stays.
    pub time: Duration,
    /// Figures by device.
    pub devices: BTreeMap<DeviceId, Figures>,
}

/// The effect of a line on the memory of one device.
///
/// ```
/// use toma_trace::Place;
/// use toma_trace::lines::Lines;
///
/// /// The bytes that a line has allocated on the host and not freed.
/// fn kept_bytes(lines: &Lines, file: &str, number: u32) -> u64 {
///     lines.figures(file, number, &Place::HOST).map_or(0, |figures| figures.kept)
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// The most bytes that were allocated on the device during a stay, by any thread. This and the following figures of
    /// the device's bytes include fetched storages.
    pub peak: u64,
    /// The most bytes that the device's allocator had reserved during a stay.
    pub reserved: u64,
    /// The most by which the allocated bytes rose above those at the start of a stay.
    pub rise: u64,
    /// The most bytes that were allocated at the end of a stay.
    pub current: u64,
    /// Bytes that were allocated in its stays.
    pub allocated: u64,
    /// Bytes that were freed in its stays.
    pub freed: u64,
    /// Bytes of the live blocks that were born while this was the innermost line.
    pub kept: u64,
    /// Bytes of storages that were [fetched](super::Stack::returned) to the device in its stays.
    pub fetched: u64,
    /// Bytes of storages that were [evicted](super::Stack::left) from the device in its stays.
    pub offloaded: u64,
    /// Bytes that were allocated to compute the gradients of its operators.
    pub backward: u64,
    /// Allocations that failed in its stays.
    pub ooms: u64,
}

impl DevicePeak {
    fn new(bytes: u64) -> Self {
        Self { bytes: bytes.into(), ..Self::default() }
    }
}

impl DeviceId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl Figures {
    /// Returns allocated less freed bytes. Storages that only moved are in neither.
    #[must_use]
    pub fn net(&self) -> i128 {
        i128::from(self.allocated) - i128::from(self.freed)
    }
}

impl Rows {
    /// Creates rows for these devices, each with the bytes that are allocated there already.
    #[must_use]
    pub fn new(devices: &[(Place, u64)]) -> Self {
        let gauge = |bytes| {
            let gauge = Gauge::default();
            gauge.allocate(bytes);
            gauge
        };
        Self {
            devices: devices.iter().map(|(_, bytes)| gauge(*bytes)).collect(),
            highest: devices.iter().map(|(_, bytes)| DevicePeak::new(*bytes)).collect(),
            places: devices.iter().map(|(place, _)| place.clone()).collect(),
            accounts: Accounts::default(),
            clock: Box::new(|| Duration::ZERO),
        }
    }

    /// Sets a clock, which is read at each mark. Without one no time is measured.
    #[must_use]
    pub fn clock(self, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), ..self }
    }

    /// Returns the number of a device, if it is one of these.
    #[must_use]
    pub fn device(&self, place: &Place) -> Option<DeviceId> {
        self.devices().find(|(_, known)| *known == place).map(|(device, _)| device)
    }

    /// Returns the devices.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceId, &Place)> {
        (0..).map(DeviceId).zip(&self.places)
    }

    /// Returns the bytes that are allocated on a device now.
    ///
    /// # Panics
    ///
    /// If the device is of other rows and these have none of its number.
    #[must_use]
    pub fn allocated_bytes(&self, device: DeviceId) -> u64 {
        self.gauge(device).get().allocated
    }

    /// Returns the rows of all threads together, by line. A line without a row never ran and holds nothing.
    ///
    /// Stays that have not ended are not in them.
    #[must_use]
    pub fn by_line(&self) -> BTreeMap<LineId, Row> {
        let mut rows = BTreeMap::<LineId, Row>::new();
        for (line, counters) in self.accounts.iter().flat_map(|account| account.lines.iter()) {
            if !counters.is_untouched() {
                rows.entry(LineId(line)).or_default().add(counters);
            }
        }
        rows
    }

    /// Returns the row of threads that were in no line, while several others or none were in one.
    #[must_use]
    pub fn outside(&self) -> Row {
        let mut row = Row::default();
        self.accounts.iter().for_each(|account| row.add(&account.outside));
        row
    }

    /// Returns the most bytes that were allocated on a device at one moment, and the line that allocated the last of
    /// them, or the line of the operator whose gradient they were for.
    ///
    /// # Panics
    ///
    /// If the device is of other rows and these have none of its number.
    #[must_use]
    pub fn peak(&self, device: DeviceId) -> (u64, Option<LineId>) {
        let DevicePeak { bytes, line } = &self.highest[device.index()];
        (bytes.load(Relaxed), line.load(Relaxed).checked_sub(1).map(LineId))
    }

    /// Makes room for threads that begin when memory is short.
    pub(crate) fn prepare(&self) {
        self.accounts.prepare(self.devices.len());
    }

    /// Sets the allocated bytes, independent of earlier reports.
    pub(crate) fn correct(&self, device: DeviceId, bytes: u64) {
        self.gauge(device).correct(bytes);
        self.highest[device.index()].bytes.store(bytes, Relaxed);
    }

    /// Records that so many bytes are allocated, the last of them for a line.
    pub(super) fn reaches(&self, device: DeviceId, now: u64, line: Option<LineId>) {
        let DevicePeak { bytes, line: of } = &self.highest[device.index()];
        if bytes.load(Relaxed) < now && bytes.fetch_max(now, Relaxed) < now {
            of.store(line.map_or(0, |line| line.0.saturating_add(1)), Relaxed);
        }
    }

    pub(super) fn gauge(&self, device: DeviceId) -> &Gauge {
        &self.devices[device.index()]
    }

    pub(super) fn now(&self) -> Duration {
        (self.clock)()
    }

    /// Returns the line of the only thread that is in one.
    pub(crate) fn only_line(&self) -> Option<LineId> {
        Some(LineId(self.only_profiling()?.line.load(Relaxed)))
    }

    /// Returns the account of the only thread that is in a line, if there is one.
    pub(super) fn only_profiling(&self) -> Option<&Arc<Account>> {
        let mut profiling = self.accounts.iter().filter(|account| account.is_profiling());
        profiling.next().filter(|_| profiling.next().is_none())
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("places", &self.places)
            .field("by_line", &self.by_line())
            .finish_non_exhaustive()
    }
}

impl Row {
    /// Adds the counts of the same line in other stays.
    pub(super) fn merge(&mut self, other: &Self) {
        self.hits += other.hits;
        self.stays += other.stays;
        self.time += other.time;
        for (device, figures) in &other.devices {
            self.devices.entry(*device).or_default().merge(figures);
        }
    }

    fn add(&mut self, counters: &LineCounters) {
        self.hits += counters.hits.get();
        self.stays += counters.stays.get();
        self.time += counters.time();
        for (device, counters) in (0..).map(DeviceId).zip(counters.devices.get().into_iter().flatten()) {
            self.devices.entry(device).or_default().merge(&counters.figures());
        }
    }
}

impl Figures {
    fn merge(&mut self, other: &Self) {
        self.peak = self.peak.max(other.peak);
        self.reserved = self.reserved.max(other.reserved);
        self.rise = self.rise.max(other.rise);
        self.current = self.current.max(other.current);
        self.allocated += other.allocated;
        self.freed += other.freed;
        self.fetched += other.fetched;
        self.offloaded += other.offloaded;
        self.backward += other.backward;
        self.ooms += other.ooms;
        // One part is below zero if it freed memory that another allocated.
        self.kept = self.kept.wrapping_add(other.kept);
    }
}

impl DeviceCounters {
    fn figures(&self) -> Figures {
        let sum = |sum: Sum| self.sums[sum as usize].get();
        Figures {
            peak: self.peak.get(),
            reserved: self.reserved.get(),
            rise: self.rise.get(),
            current: self.current.get(),
            allocated: sum(Sum::Allocated),
            freed: sum(Sum::Freed),
            kept: self.kept.get(),
            fetched: sum(Sum::Fetched),
            offloaded: sum(Sum::Offloaded),
            backward: self.backward.get(),
            ooms: sum(Sum::Ooms),
        }
    }
}

impl LineCounters {
    /// True if it exists only because its bucket does.
    fn is_untouched(&self) -> bool {
        self.stays.get() == 0 && self.devices.get().is_none()
    }
}
