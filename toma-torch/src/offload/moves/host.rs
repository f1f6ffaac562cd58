//! Host memory for evicted storages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use toma_core::memory::{self, MemorySource as _};

use crate::error::{Error, ErrorKind};
use crate::ffi::{DeviceId, HostBytes};

/// Block sizes are multiples of this, so that blocks of one step fit the next.
const GRAIN: u64 = 4 << 10;

/// Smaller blocks are not pinned: they are copied as fast in pieces, and may share a page with other memory.
const PINNED_BYTES: u64 = 1 << 20;

/// Pool of blocks of host memory. Returned blocks wait for reuse, so that the system need not map their pages again.
#[derive(Debug)]
pub(crate) struct HostPool {
    /// The GPU for which large blocks are pinned.
    pinned_for: Option<DeviceId>,
    pool: Mutex<Pool>,
}

#[derive(Debug)]
struct Pool {
    limit_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    /// Blocks that wait for reuse, by their capacity in bytes.
    free: BTreeMap<u64, Vec<HostBytes>>,
}

impl HostPool {
    /// Creates the default pool: evicted storages take at most half of the free host memory.
    pub(crate) fn by_default(device: tch::Device) -> Arc<Self> {
        let reading = memory::Host::shared().read();
        Self::new(reading.map_or(u64::MAX, |reading| reading.free_bytes / 2), device)
    }

    fn new(limit_bytes: u64, device: tch::Device) -> Arc<Self> {
        let pool = Pool { limit_bytes, used_bytes: 0, free_bytes: 0, free: BTreeMap::new() };
        let pinned_for = device.is_cuda().then(|| DeviceId::of(device));
        Arc::new(Self { pinned_for, pool: Mutex::new(pool) })
    }

    fn pool(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.pool().limit_bytes = bytes;
    }

    /// Bytes of blocks that are in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.pool().used_bytes
    }

    /// Returns a block with capacity for `bytes`.
    pub(crate) fn block(self: &Arc<Self>, bytes: u64) -> Result<HostBlock, Error> {
        let size = bytes.next_multiple_of(GRAIN);
        let (reused, _unlocked) = {
            let mut pool = self.pool();
            (pool.take(size)?, pool.trimmed())
        };
        let buffer = reused.map_or_else(|| self.buffer(size), |larger| Ok(self.fitted(larger, size)));
        let buffer = buffer.inspect_err(|_| self.pool().used_bytes -= size)?;
        Ok(HostBlock { buffer, size, host: Arc::clone(self) })
    }

    /// Shrinks a reused buffer to `size` bytes, because the excess would be counted nowhere.
    fn fitted(&self, buffer: HostBytes, size: u64) -> HostBytes {
        if buffer.room() as u64 == size {
            return buffer;
        }
        let mut bytes = buffer.into_bytes();
        bytes.shrink_to(usize::try_from(size).unwrap_or(usize::MAX));
        self.pinned(bytes)
    }

    fn buffer(&self, size: u64) -> Result<HostBytes, Error> {
        let mut bytes = Vec::new();
        let reserved = usize::try_from(size).ok().and_then(|size| bytes.try_reserve_exact(size).ok());
        reserved.map(|()| self.pinned(bytes)).ok_or_else(|| lacking(size, "the system has no more"))
    }

    fn pinned(&self, bytes: Vec<u8>) -> HostBytes {
        let is_large = bytes.capacity() as u64 >= PINNED_BYTES;
        HostBytes::new(bytes, self.pinned_for.filter(|_| is_large))
    }
}

fn lacking(bytes: u64, why: &str) -> Error {
    let message = format!("host out of memory: tried to hold {bytes} evicted bytes, {why}");
    Error::new(ErrorKind::OutOfMemory, message)
}

impl Pool {
    /// Counts a block of `size` bytes as used. Returns a waiting buffer that fits and is at most twice as large.
    fn take(&mut self, size: u64) -> Result<Option<HostBytes>, Error> {
        if self.used_bytes.saturating_add(size) > self.limit_bytes {
            let (used, limit) = (self.used_bytes, self.limit_bytes);
            return Err(lacking(size, &format!("{used} of {limit} are in use")));
        }
        self.used_bytes += size;
        let fitting = self.free.range(size..=size.saturating_mul(2)).next().map(|(found, _)| *found);
        let Some(found) = fitting else { return Ok(None) };
        let blocks = self.free.get_mut(&found).expect("it was found");
        let buffer = blocks.pop();
        if blocks.is_empty() {
            self.free.remove(&found);
        }
        self.free_bytes -= found;
        Ok(buffer)
    }

    /// Takes out all waiting buffers if they leave too few bytes of the limit for blocks in use.
    fn trimmed(&mut self) -> BTreeMap<u64, Vec<HostBytes>> {
        if self.used_bytes + self.free_bytes <= self.limit_bytes {
            return BTreeMap::new();
        }
        self.free_bytes = 0;
        std::mem::take(&mut self.free)
    }

    /// Stores a buffer for reuse, or returns it if the limit leaves no room for it.
    fn give_back(&mut self, buffer: HostBytes, size: u64) -> Option<HostBytes> {
        let holds = buffer.room() as u64;
        self.used_bytes -= size;
        if self.used_bytes + self.free_bytes + holds > self.limit_bytes {
            return Some(buffer);
        }
        self.free_bytes += holds;
        self.free.entry(holds).or_default().push(buffer);
        None
    }
}

/// A block of host memory, which goes back to the pool when it is dropped, on any thread.
#[derive(Debug)]
pub(crate) struct HostBlock {
    buffer: HostBytes,
    size: u64,
    host: Arc<HostPool>,
}

impl HostBlock {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Buffer with capacity for as many bytes as were requested.
    pub(crate) fn room(&mut self) -> &mut HostBytes {
        &mut self.buffer
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        // A buffer that the pool does not store is freed without the lock.
        let _unlocked = self.host.pool().give_back(buffer, self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_blocks_are_used_again_and_the_limit_counts_used_bytes() {
        let host = HostPool::new(64 << 10, tch::Device::Cpu);
        let first = host.block(10 << 10).unwrap();
        let address = first.bytes().as_ptr();
        assert_eq!(host.used_bytes(), 12 << 10);
        let error = host.block(60 << 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.to_string().ends_with("12288 of 65536 are in use"), "{error}");
        drop(first);
        assert_eq!(host.used_bytes(), 0);
        assert_eq!(host.block(9 << 10).unwrap().bytes().as_ptr(), address);
        assert_ne!(host.block(1 << 10).unwrap().bytes().as_ptr(), address, "more than twice as large");
    }

    #[test]
    fn no_more_than_the_limit_waits() {
        let host = HostPool::new(16 << 10, tch::Device::Cpu);
        let blocks: Vec<_> = (0..4).map(|_| host.block(4 << 10).unwrap()).collect();
        drop(blocks);
        let whole = host.block(16 << 10).unwrap();
        drop(whole);
        let pool = host.pool();
        assert!(pool.free_bytes <= 16 << 10, "{pool:?}");
    }

    #[test]
    fn blocks_hold_no_more_than_the_limit_whatever_was_there_before() {
        let host = HostPool::new(64 << 10, tch::Device::Cpu);
        let large: Vec<_> = (0..2).map(|_| host.block(32 << 10).unwrap()).collect();
        drop(large);
        let small: Vec<_> = (0..4).map(|_| host.block(16 << 10).unwrap()).collect();
        let held: usize = small.iter().map(|block| block.buffer.room()).sum();
        assert!(held <= 64 << 10, "{held}");
    }
}
