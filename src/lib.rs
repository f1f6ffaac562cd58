//! Memory-adaptive execution: code that runs out of memory is run again with a smaller batch, and
//! the size that worked is remembered.
//!
//! Write the body for as many items as there are and call it for all of them. When memory does not
//! suffice, the body runs on smaller parts, and the next call starts with parts of that size:
//!
//! ```
//! use std::collections::TryReserveError;
//! use toma::memory::{set_cpu_memory_limit, used_bytes};
//!
//! /// The distance from each point to its nearest neighbor.
//! #[toma::range]
//! fn nearest(start: usize, end: usize, points: &[f32], out: &mut [f32]) -> Result<(), TryReserveError> {
//!     let mut gaps: Vec<f32> = Vec::new();
//!     gaps.try_reserve_exact((end - start) * points.len())?; // too much? once more with half of start..end
//!     gaps.extend(points[start..end].iter().flat_map(|a| points.iter().map(move |b| (a - b).abs())));
//!     for (row, out) in gaps.chunks(points.len()).zip(&mut out[start..end]) {
//!         *out = row.iter().copied().filter(|gap| *gap > 0.0).fold(f32::INFINITY, f32::min);
//!     }
//!     Ok(())
//! }
//!
//! let points: Vec<f32> = (0_u16..3000).map(|i| f32::from(i).sin()).collect();
//! let mut out = vec![0.0; points.len()];
//! // All gaps take 34 MiB. A limit leaves this process 16.
//! let limit = used_bytes().and_then(|used| set_cpu_memory_limit(used + (16 << 20)));
//! # let is_limited = limit.is_ok();
//! nearest(0, points.len(), &points, &mut out)?;
//! drop(limit);
//! println!("{}", toma::report::last().unwrap());
//! # assert_eq!(toma::report::last().unwrap().out_of_memory, if is_limited { 2 } else { 0 });
//! # assert!(out.iter().all(|gap| *gap < 0.01));
//! # Ok::<(), TryReserveError>(())
//! ```
//!
//! It prints a report of the call:
//! ```text
//! demo::nearest: 3000 items in 6 attempts, 2 out of memory
//!   started  at 3000, nothing was remembered
//!   tried    3000 -> 1500 -> 750 worked 4 times
//!   learned  750 works, 1500 does not; 750 is at least 50 % of the limit
//!   lost     at least 22.9µs in attempts that failed
//!   next     starts from 750, remembered in StacktraceMemoryCache
//!   callers  demo::nearest < demo::main
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | one page for each system, each with a program that runs | [`guide`] |
//! | a function whose body works on a part of a range | [`#[toma::range]`](range) |
//! | a function whose body works on a part of a slice or a tuple of them | [`#[toma::chunked]`](chunked) |
//! | a function whose body takes a batch size | [`#[toma::batch]`](batch) |
//! | a closure instead of a function, values in order, reductions | [`execute`] |
//! | values one by one, as an iterator or a stream | [`With::iter`](execute::With::iter), [`With::stream`](execute::With::stream) |
//! | items of different weight: tokens, bytes, atoms | [`With::by_cost`](execute::With::by_cost) |
//! | where sizes are remembered, and how calls are distinguished | [`cache`] |
//! | which size comes next | [`policy`] |
//! | which values can be cut into chunks | [`chunk`] |
//! | which failures count as out of memory, and adding your own types and texts | [`classify`] |
//! | free memory, a memory limit for this process, and devices of your own | [`memory`] |
//! | running the same size in fewer bytes, at the cost of time | [`leaner`] |
//! | threads on one device, release hooks, fallback, reserved bytes, cancellation | [`device`] |
//! | events, observers, the progress bar | [`observe`] |
//! | a report of the last call | [`report::last`] |
//! | injected failures, in tests | [`testing`] |
//! | the line of source that runs, for profilers | [`#[toma::profile]`](profile) |
//! | live tensors by name; a bound on the bytes of a step | `toma::torch::profile::inventory`, `toma::assert_peak!` (feature `tch`) |
//! | sizes that fit, predicted before the first run | [`predict`] |
//! | a recording of a step, and its memory at other sizes | `toma::trace`, `toma::plan` (feature `tch`) |
//!
//! # The body may run more than once
//!
//! An attempt that runs out of memory is dropped and repeated from the start of its own piece; pieces that
//! succeeded are never repeated. So a body should write its results to their final location (`out[start..end]`)
//! instead of appending them, or undo the effects of a failed attempt. In an attribute, `before_retry` sees the
//! function's parameters as the failed attempt saw them:
//!
//! ```
//! # use std::collections::TryReserveError;
//! #[toma::range(initial = 64, before_retry = rows.truncate(start))]
//! fn collect(start: usize, end: usize, rows: &mut Vec<usize>) -> Result<(), TryReserveError> {
//!     rows.extend(start..end);
//! #   if end - start > 10 { Vec::<u8>::new().try_reserve_exact(usize::MAX)?; }
//!     Ok(())
//! }
//!
//! let mut rows = Vec::new();
//! collect(0, 100, &mut rows)?;
//! assert_eq!(rows, Vec::from_iter(0..100));
//! # assert!(toma::report::last().unwrap().out_of_memory > 0);
//! # Ok::<(), TryReserveError>(())
//! ```
//!
//! Inline forms share state in a `RefCell`: see [`before_retry`](execute::With::before_retry).
//!
//! A panic poisons each [`std::sync::Mutex`] that the body holds. The retry's `lock().unwrap()` then panics with a
//! `PoisonError`, which is not out of memory, so it reaches the caller. Take the guard out of the error, or use a
//! lock without poisoning, such as that of `parking_lot`:
//!
//! ```
//! use std::sync::{Mutex, PoisonError};
//! # fn launch_kernel(items: usize) { assert!(items <= 3, "CUDA out of memory. Tried to allocate 2.00 GiB") }
//!
//! #[toma::batch(initial = 8)]
//! fn launch(batch_size: usize, stream: &Mutex<()>) -> usize {
//!     let _held = stream.lock().unwrap_or_else(PoisonError::into_inner);
//!     launch_kernel(batch_size); // panics
//!     batch_size
//! }
//!
//! assert_eq!(launch(&Mutex::new(())), 2);
//! ```
//!
//! # Failures that count as out of memory
//!
//! A failure counts as out of memory if a link of its error's chain of sources says so, by its type
//! ([`TryReserveError`](std::collections::TryReserveError),
//! [`io::ErrorKind::OutOfMemory`](std::io::ErrorKind::OutOfMemory)) or by its text (CUDA, libtorch, cuDNN and
//! others). This holds for every [`std::error::Error`], for every boxed error, and for panics with such a payload,
//! because many libraries panic when memory runs out. Any other failure reaches the caller unchanged at the first
//! attempt. At the smallest size the original error or panic reaches the caller unchanged. See [`classify`].
//!
//! Rust's own collections abort when memory runs out, so allocate large buffers with `try_reserve`.
//!
//! # Logs and reports
//!
//! `TOMA_LOG=1` prints every failure and the reaction to it; `TOMA_DISABLE=1` runs every body once at its initial
//! size; [`report::last`] returns a report of this thread's last call; [observers](observe) receive every event.
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | turns on | adds |
//! |---|---|---|
//! | `anyhow` | `anyhow::Error` as an error type of bodies | the anyhow crate |
//! | `candle` | [`candle`]: tensors, errors and devices of candle | the crates candle-core, cudarc and ctor |
//! | `cuda` | [`cuda`]: devices, errors and slices of cudarc; the driver is loaded at run time | the crates cudarc and ctor |
//! | `doc-only` | the documentation of `tch` where there is no libtorch | the same as `tch` |
//! | `ndarray` | [chunks](chunk) of ndarray views along any axis | the ndarray crate |
//! | `persistent` | [`PersistentCache`], which remembers across runs | the crates etcetera, fs4, serde and serde_json |
//! | `progress` | [`ProgressBar`](observe::ProgressBar) | the indicatif crate |
//! | `stream` | [`execute::Stream`] as a `futures_core::Stream` | the futures-core crate |
//! | `svg` | `report::svg`, which draws the sizes of calls over time | the plotters crate, without its fonts and bitmaps |
//! | `tch` | `toma::torch`: chunks of tensors, memory of libtorch's devices | the tch crate, which needs libtorch 2.11 |
//! | `testing` | [`testing`]: a fake device, failures on purpose; for `[dev-dependencies]` | one relaxed load per attempt |
//! | `tracing` | every event as a `tracing` event, target `toma` | the tracing crate |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(feature = "progress", feature = "testing")),
    allow(rustdoc::broken_intra_doc_links, reason = "the manual names what only features bring")
)]

pub mod guide;

#[cfg(feature = "candle")]
pub use toma_candle as candle;
#[cfg(feature = "persistent")]
pub use toma_core::PersistentCache;
/// Alias for programs that write `toma::cpu_memory::set_cpu_memory_limit`.
#[doc(hidden)]
pub use toma_core::memory as cpu_memory;
#[cfg(feature = "testing")]
pub use toma_core::testing;
pub use toma_core::{
    Adaptive, Bisect, Decay, DefaultCache, GlobalCache, Halve, NoCache, Outcome, Plain,
    StacktraceMemoryCache, Throughput, cache, chunk, classify, device, execute, leaner, memory, observe,
    policy, predict, ranks, report,
};
// For the expansion of `#[toma::profile]`.
#[doc(hidden)]
pub use toma_core::marks;
#[cfg(feature = "cuda")]
pub use toma_cuda as cuda;
/// Predictions over sizes, checkpoint plans, and rules of eviction: the names that programs need. The crate `toma_plan`
/// has the rest.
#[cfg(feature = "tch")]
pub mod plan {
    pub use toma_plan::{Combined, Growth, Rows};

    /// Stages of a step, and plans that recompute some of them.
    pub mod checkpoint {
        pub use toma_plan::checkpoint::{
            Action, Costs, InvalidCosts, Plan, Point, Saving, Solver, Stage, TooSmall,
        };
    }

    /// Rules of eviction for [`torch::offload`](crate::torch::offload).
    pub mod residency {
        pub use toma_plan::residency::{Candidate, Eviction, Flow, Genoa, Lru, Next, NextEvent, Situation};
    }
}
/// Alias of [`plan::checkpoint`] for programs that write `toma::checkpoint`.
#[cfg(feature = "tch")]
#[doc(hidden)]
pub use plan::checkpoint;
#[doc = include_str!("manual/trace.md")]
#[cfg(feature = "tch")]
pub mod trace {
    pub use toma_trace::{Access, Live, Peak, Place, Size, Trace, Unreadable, holdings, write};

    /// Memory by line of a program.
    pub mod lines {
        pub use toma_trace::lines::{Diff, Figures, Lines, NoEvents, Row};
    }
}

/// Runs a function with the largest batch size that memory allows.
///
/// # Examples
///
/// The batch size disappears from the signature; callers get the value of the attempt that succeeded:
///
/// ```
/// use toma::classify::OutOfMemory;
/// # struct Model;
/// # impl Model {
/// #     /// Has memory for 100 texts.
/// #     fn embed(&self, texts: &[&str]) -> Result<Vec<usize>, OutOfMemory> {
/// #         if texts.len() > 100 { return Err(OutOfMemory::new(None)) }
/// #         Ok(texts.iter().map(|text| text.len()).collect())
/// #     }
/// # }
///
/// #[toma::batch(initial = 512)]
/// fn embed(batch_size: usize, model: &Model, texts: &[&str]) -> Result<Vec<usize>, OutOfMemory> {
///     let mut vectors = Vec::new();
///     for batch in texts.chunks(batch_size) {
///         vectors.extend(model.embed(batch)?);
///     }
///     Ok(vectors)
/// }
///
/// let texts = ["a text"; 1000];
/// assert_eq!(embed(&Model, &texts)?.len(), 1000);
/// assert_eq!(toma::report::last().unwrap().settled, Some(64));
/// # Ok::<(), OutOfMemory>(())
/// ```
///
/// Methods, `i64` sizes as in tch, and option values that use the function's arguments:
///
/// ```
/// use std::time::Duration;
/// use toma::{Bisect, GlobalCache};
/// # use toma::classify::OutOfMemory;
///
/// struct Renderer {
///     largest_batch: i64,
/// }
///
/// impl Renderer {
///     /// One size is remembered per image size, and all of them are multiples of 8.
///     #[toma::batch(
///         initial = self.largest_batch, multiple_of = 8, key = (width, height),
///         cache = GlobalCache, policy = Bisect::default(), deadline = Duration::from_secs(60),
///     )]
///     fn render(&self, batch_size: i64, width: u32, height: u32) -> Result<i64, OutOfMemory> {
/// #       if batch_size > 100 { return Err(OutOfMemory::new(None)) }
///         Ok(batch_size)
///     }
/// }
///
/// let renderer = Renderer { largest_batch: 512 };
/// assert_eq!(renderer.render(640, 480)?, 64);
/// # Ok::<(), OutOfMemory>(())
/// ```
///
/// An error type that does not implement [`std::error::Error`] needs a function that [classifies](crate::classify)
/// it:
///
/// ```
/// use toma::classify::Class;
///
/// struct Status(u32);
///
/// fn class_of(status: &Status) -> Class {
///     if status.0 == 2 { Class::OutOfMemory } else { Class::Other }
/// }
///
/// #[toma::batch(initial = 64, classify = class_of)]
/// fn launch(blocks: usize) -> Result<usize, Status> {
///     if blocks > 20 { Err(Status(2)) } else { Ok(blocks) }
/// }
///
/// assert!(launch().is_ok_and(|blocks| blocks == 16));
/// ```
///
/// An `async fn`; its future is [`Send`] if the body's future is:
///
/// ```
/// # use std::collections::TryReserveError;
/// # async fn upload(size: usize) -> Result<usize, TryReserveError> { Ok(size) }
/// #[toma::batch(initial = 256, min = 16)]
/// async fn upload_all(batch_size: usize, files: &[String]) -> Result<usize, TryReserveError> {
///     let mut done = 0;
///     for batch in files.chunks(batch_size) {
///         done += upload(batch.len()).await?;
///     }
///     Ok(done)
/// }
/// # fn is_send(_: impl Send) {}
/// # is_send(upload_all(&[]));
/// ```
///
/// # Reference
///
/// The guide lists [all options](guide::options).
pub use toma_macros::batch;

/// Runs a function over a range, in parts as large as memory allows.
///
/// # Examples
///
/// Callers pass the whole range, the body gets one part after another:
///
/// ```
/// use std::collections::TryReserveError;
///
/// #[toma::range(initial = 256)]
/// fn squares(start: usize, end: usize, x: &[f32], out: &mut [f32]) -> Result<(), TryReserveError> {
///     let mut squares = Vec::new();
///     squares.try_reserve_exact(end - start)?;
///     squares.extend(x[start..end].iter().map(|x| x * x));
///     out[start..end].copy_from_slice(&squares);
///     Ok(())
/// }
///
/// let mut out = [0.0; 1000];
/// squares(0, 1000, &[3.0; 1000], &mut out)?;
/// assert_eq!(out, [9.0; 1000]);
/// # Ok::<(), TryReserveError>(())
/// ```
///
/// A body that returns nothing and whose library panics when memory runs out:
///
/// ```
/// use toma::GlobalCache;
/// # fn launch_kernel(items: i64) {
/// #     assert!(items <= 40, "CUDA out of memory. Tried to allocate 2.00 GiB");
/// # }
///
/// #[toma::range(initial = 64, min = 8, multiple_of = 8, cache = GlobalCache)]
/// fn process(start: i64, end: i64, done: &mut Vec<i64>) {
///     launch_kernel(end - start); // panics
///     done.push(end - start);
/// }
///
/// let mut done = Vec::new();
/// process(-50, 50, &mut done);
/// assert_eq!(done, [32, 32, 32, 4]);
/// ```
///
/// `before_retry` undoes the effects of a failed attempt; it sees the parameters of that attempt:
///
/// ```
/// use std::cell::Cell;
/// # use toma::classify::OutOfMemory;
///
/// #[toma::range(initial = 8, before_retry = open.set(open.get() - (end - start)))]
/// fn open_files(start: usize, end: usize, open: &Cell<usize>) -> Result<(), OutOfMemory> {
///     open.set(open.get() + (end - start));
///     if end - start > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) }
/// }
///
/// let open = Cell::new(0);
/// open_files(0, 10, &open)?;
/// assert_eq!(open.get(), 10);
/// # Ok::<(), OutOfMemory>(())
/// ```
///
/// # Reference
///
/// The guide lists [all options](guide::options).
pub use toma_macros::range;

#[doc = include_str!("manual/chunked.md")]
pub use toma_macros::chunked;

#[doc = include_str!("manual/profile.md")]
pub use toma_macros::profile;

#[cfg(feature = "tch")]
pub use toma_torch as torch;
/// Alias for programs that write `toma::assert_peak!`; toma-torch exports the macro at its root, too.
#[cfg(feature = "tch")]
#[doc(hidden)]
pub use toma_torch::assert_peak;

#[doc(hidden)]
pub use toma_core::private as __private;

/// Tests the program of the package's README.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
