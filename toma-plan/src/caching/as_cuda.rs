//! Tables that show the host's bytes as a CUDA device would count them.

use std::collections::BTreeMap;

use toma_trace::lines::{Allocator, Lines, Served};
use toma_trace::{Place, Trace};

use super::{BlockId, CachingAllocator};

/// Returns the table of a trace as if the host memory in it lay on the device `cuda:0`.
///
/// The table of a program that ran on a CPU then shows the bytes that its lines would take on a GPU: rounded
/// up, and in segments that stay reserved. A request that exceeds `capacity_bytes` counts nothing.
///
/// ```
/// use toma_plan::caching::as_cuda;
/// use toma_trace::{Label, Place, Recorder, ScopeKind, ThreadId};
///
/// let mut recorder = Recorder::new();
/// recorder.begin_scope(ThreadId(0), Label::new(ScopeKind::Function, "f").at("src/net.rs", 1));
/// recorder.birth(ThreadId(0), &Place::HOST, 40_400)?;
/// let lines = as_cuda(&recorder.finish(), 24 << 30);
///
/// let figures = lines.figures("f", 1, &Place::device("cuda", 0)).expect("the line ran");
/// assert_eq!((figures.peak, figures.reserved), (40_448, 2 << 20));
/// # Ok::<(), toma_trace::Contradiction>(())
/// ```
pub fn as_cuda(trace: &Trace, capacity_bytes: u64) -> Lines {
    let mut allocator = Replayed { allocator: CachingAllocator::new(capacity_bytes), held: BTreeMap::new() };
    let shown_as = Place::device("cuda", 0);
    Lines::served(trace, Served { place: Place::HOST, shown_as, allocator: &mut allocator })
}

struct Replayed {
    allocator: CachingAllocator,
    held: BTreeMap<usize, BlockId>,
}

impl Allocator for Replayed {
    fn allocate(&mut self, block: usize, bytes: u64) {
        self.held.extend(self.allocator.allocate(bytes).map(|id| (block, id)));
    }

    fn free(&mut self, block: usize) {
        if let Some(id) = self.held.remove(&block) {
            self.allocator.free(id).expect("the block is held");
        }
    }

    fn allocated_bytes(&self) -> u64 {
        self.allocator.stats().allocated.current
    }

    fn reserved_bytes(&self) -> u64 {
        self.allocator.stats().reserved.current
    }
}
