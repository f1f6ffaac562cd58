//! Memory-adaptive execution.

pub use toma_core::cache::{DefaultCache, GlobalCache, NoCache, SizeCache, StacktraceMemoryCache};
pub use toma_core::chunk::Chunked;
pub use toma_core::observe::report;
pub use toma_core::policy::{Bisect, Decay, Halve, Policy};
#[cfg(feature = "testing")]
pub use toma_core::testing;
pub use toma_core::{
    Outcome, Plain, cache, chunk, classify, cpu_memory, execute, memory, observe, policy, stack,
};
pub use toma_macros::{batch, chunked, range};

#[doc(hidden)]
pub use toma_core::private as __private;
