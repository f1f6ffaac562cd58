//! Worlds: the amount of work, the limit, and the costs of attempts.

use std::time::Duration;

use toma::predict::{Predict, PredictedSize};
use toma::testing::{FakeDevice, FakeOutOfMemory, StoppedClock};

/// One world. Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    /// Items to process.
    pub(crate) items: usize,
    /// The initial size of a call without a learned one.
    pub(crate) initial: usize,
    /// The largest size that fits.
    pub(crate) limit: usize,
    /// Time of every attempt, at any size.
    pub(crate) fixed: f64,
    /// The number of items below which an attempt is no faster.
    pub(crate) saturation: usize,
    /// Time of an attempt that runs out of memory, as a share of one that would have succeeded.
    pub(crate) failure: f64,
}

const ITEM_BYTES: u64 = 1 << 20;
/// Bytes that every attempt needs, at any size.
const BASE_BYTES: u64 = 50 * ITEM_BYTES;

/// All worlds.
pub(crate) fn grid() -> Vec<World> {
    let mut worlds = Vec::new();
    for items in [10_000, 100_000, 1_000_000] {
        for initial in [512, 4096] {
            for limit in [37, 100, 300, 900, 3000] {
                if limit < initial && items >= 20 * limit {
                    worlds.extend(costs(World {
                        items,
                        initial,
                        limit,
                        fixed: 0.0,
                        saturation: 1,
                        failure: 0.0,
                    }));
                }
            }
        }
    }
    worlds
}

/// Returns the worlds to play: in a test, the first and the last.
pub(crate) fn played(mut worlds: Vec<World>, is_test: bool) -> Vec<World> {
    if is_test {
        worlds.drain(1..worlds.len() - 1);
    }
    worlds
}

/// Returns the same world with different times.
fn costs(world: World) -> Vec<World> {
    let mut worlds = Vec::new();
    for fixed in [0.0, 10.0, 100.0, 500.0] {
        for saturation in [1, 64, 256] {
            for failure in [0.1, 0.5, 1.0] {
                worlds.push(World { fixed, saturation, failure, ..world });
            }
        }
    }
    worlds
}

impl World {
    /// Time of an attempt that succeeds, in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
    pub(crate) fn time(&self, size: usize) -> f64 {
        self.fixed + size.max(self.saturation) as f64
    }

    /// Time of a whole run with this fixed size.
    #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
    fn time_with(&self, size: usize) -> f64 {
        let (full, rest) = (self.items / size, self.items % size);
        full as f64 * self.time(size) + if rest > 0 { self.time(rest) } else { 0.0 }
    }

    /// Time of a whole run with the best fixed size.
    pub(crate) fn best(&self) -> f64 {
        let sizes = self.limit.div_ceil(2)..=self.limit;
        sizes.map(|size| self.time_with(size)).min_by(f64::total_cmp).unwrap_or(f64::NAN)
    }

    pub(crate) fn device(&self) -> FakeDevice {
        FakeDevice::new(bytes(self.limit))
    }

    /// Makes one attempt: takes memory, and lets time pass.
    pub(crate) fn attempt(
        &self,
        device: &FakeDevice,
        clock: &StoppedClock,
        size: usize,
    ) -> Result<(), FakeOutOfMemory> {
        let memory = device.alloc(needed(size));
        let time =
            if memory.is_ok() { self.time(size) } else { self.failure * self.time(size.min(2 * self.limit)) };
        clock.advance(Duration::from_secs_f64(time / 1000.0));
        memory.map(drop)
    }
}

/// A budget for `limit` items.
pub(crate) fn bytes(limit: usize) -> u64 {
    needed(limit) + ITEM_BYTES / 2
}

/// Bytes that an attempt of this size needs.
pub(crate) fn needed(size: usize) -> u64 {
    BASE_BYTES + ITEM_BYTES * size as u64
}

/// The prediction that a dry run would make in any of the worlds.
#[derive(Debug)]
pub(crate) struct Prediction;

impl Predict for Prediction {
    fn predict(&self, items: Option<usize>, free_bytes: u64) -> Option<PredictedSize> {
        let fits = usize::try_from(free_bytes.checked_sub(BASE_BYTES)? / ITEM_BYTES).ok()?;
        let size = items.map_or(fits, |items| items.min(fits));
        Some(PredictedSize { size, needs_bytes: needed(size) })
    }
}
