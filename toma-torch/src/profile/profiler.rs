use toma_trace::Place;
use toma_trace::counting::Counting;
use toma_trace::lines::Lines;

use crate::cpu;
use crate::error::{Error, ErrorKind};
use crate::ffi;

/// What is recorded, and how.
///
/// No counter of libtorch is reset, and no size or retry of a loop changes.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "nothing is recorded until it is started"]
pub struct Profiler(());

impl Profiler {
    /// Records bytes by line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records from now on, on all threads.
    ///
    /// CPU tensors are [counted](crate::cpu) from now on. Blocks from before belong to no line.
    ///
    /// # Errors
    /// When another profiler runs.
    pub fn start(self) -> Result<Profiling, Error> {
        cpu::count();
        let busy = |busy| Error::new(ErrorKind::Unsupported, format!("profiler: {busy}"));
        let counting = Counting::start(&[(Place::HOST, cpu::allocated_bytes())]).map_err(busy)?;
        ffi::watch_cpu();
        Ok(Profiling { counting })
    }
}

/// A recording that runs, until it is finished or dropped.
#[derive(Debug)]
#[must_use = "recording ends when this is dropped"]
pub struct Profiling {
    counting: Counting,
}

impl Profiling {
    /// What is recorded so far. Lines that run now are not in it.
    pub fn lines(&self) -> Lines {
        self.counting.lines()
    }

    /// Ends it.
    pub fn finish(self) -> Recording {
        Recording { lines: self.counting.finish() }
    }
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    lines: Lines,
}

impl Recording {
    /// What each line did, in the order of the source.
    #[must_use]
    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }
}
