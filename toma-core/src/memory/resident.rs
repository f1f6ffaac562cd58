//! The host's memory, with the resident bytes of this process.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::kernel_file::KernelFile;
use super::{Host, MemorySource, Reading, Usage};

/// Resident bytes that come and go without a reason in the work.
const NOISE_BYTES: u64 = 1 << 20;

/// Size of a test block, small enough that no allocator asks the system for it separately.
const BLOCK_BYTES: usize = 64 << 10;

/// Number of blocks allocated at a time.
const BLOCKS: usize = 16;

/// Together 64 MiB: glibc gives back free memory at the end of its heap beyond that.
const MOST_BLOCKS: usize = 1024;

/// The host's free memory, and the resident bytes that this process has taken since the start of the measurement.
///
/// For work that is killed with the process if it takes too much, because no allocation fails before: see
/// [`calibrated`](crate::execute::With::calibrated). Make one for each loop, after the model is loaded and right
/// before the work. Memory taken from then on counts as the work's, so let one loop at a time use it.
///
/// Its name is `host`, as for [`Host`]. Resident bytes and their peak are read from `/proc/self/status`; the peak
/// is reset if the kernel allows it, and otherwise is the highest so far.
///
/// ```
/// # extern crate toma_core as toma;
/// # #[cfg(target_os = "linux")] {
/// use toma::memory::{MemorySource, Resident};
///
/// let memory = Resident::now()?;
/// let taken = vec![1_u8; 64 << 20];
/// assert!(memory.usage().unwrap().peak_allocated_bytes > 32 << 20);
/// drop(taken);
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Resident {
    /// Lowest resident bytes before a piece.
    base: AtomicU64,
    /// Freed bytes among `base` that the allocator can use again without growing, and the height of a peak that
    /// could not be reset.
    held: u64,
    /// A limit on resident bytes.
    most: u64,
}

impl Resident {
    /// Starts counting now.
    ///
    /// # Errors
    /// If the system does not report resident bytes, as on systems other than Linux.
    pub fn now() -> io::Result<Self> {
        let held = held_back()?;
        reset_peak();
        let (now, peak) = resident_bytes()?;
        let held = held.saturating_add(peak.saturating_sub(now));
        Ok(Self { base: AtomicU64::new(now), held, most: u64::MAX })
    }

    /// Sets a limit on resident bytes of the whole process, if something other than the machine or its container
    /// kills the process beyond that limit.
    #[must_use]
    pub fn at_most(mut self, bytes: u64) -> Self {
        self.most = bytes;
        self
    }

    fn beyond_base(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.base.load(Relaxed))
    }
}

impl MemorySource for Resident {
    fn name(&self) -> &str {
        Host::shared().name()
    }

    /// Reads the free bytes, plus the bytes taken since [`now`](Self::now).
    fn read(&self) -> io::Result<Reading> {
        let (now, resident) = (Host::shared().read()?, resident_bytes()?.0);
        let free_bytes = now.free_bytes.min(self.most.saturating_sub(resident));
        Ok(Reading { free_bytes: free_bytes.saturating_add(self.beyond_base(resident)), ..now })
    }

    fn usage(&self) -> Option<Usage> {
        let (_, peak) = resident_bytes().ok()?;
        Some(Usage::new(0, self.beyond_base(peak)))
    }

    fn reset_peak(&self) {
        if let Ok((now, _)) = resident_bytes() {
            self.base.fetch_min(now, Relaxed);
        }
        reset_peak();
    }

    fn held_bytes(&self) -> u64 {
        self.held + NOISE_BYTES
    }
}

/// Resets the peak. If the kernel refuses, the peak only rises, and a size counts as no smaller than those before
/// it.
fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Measures the bytes that can be allocated before resident bytes grow, by allocating them.
fn held_back() -> io::Result<u64> {
    let (before, _) = resident_bytes()?;
    let mut blocks = Vec::new();
    let mut grown = 0;
    while grown < NOISE_BYTES && blocks.len() < MOST_BLOCKS {
        blocks.extend((0..BLOCKS).map(|_| vec![1_u8; BLOCK_BYTES]));
        grown = resident_bytes()?.0.saturating_sub(before);
    }
    Ok(((blocks.len() * BLOCK_BYTES) as u64).saturating_sub(grown))
}

/// Reads the current and the highest resident bytes.
fn resident_bytes() -> io::Result<(u64, u64)> {
    let mut buffer = Vec::new();
    let expected = "lines `VmRSS:` and `VmHWM:` with a number of kB";
    let status = KernelFile::must_read(Path::new("/proc/self/status"), expected, &mut buffer)?;
    let bytes = |key| Ok::<_, io::Error>(status.value_of(key)?.saturating_mul(1024));
    Ok((bytes("VmRSS")?, bytes("VmHWM")?))
}
