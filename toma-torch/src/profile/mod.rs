//! Which line filled the memory, and what is alive.
//!
//! Functions under `#[toma::profile]` tell which line runs. While a [`Profiler`] runs, every byte of CPU tensors that
//! is allocated or freed belongs to a line of them, on whatever thread; what GPUs lack stands at the end.
//!
//! ```
//! use tch::{Device, Kind, Tensor};
//! use toma_torch::profile::{Column, Profiler};
//!
//! #[toma::profile]
//! fn sum(rows: i64) -> f64 {
//!     let rows = Tensor::ones([rows, 256], (Kind::Float, Device::Cpu));
//!     let squares = rows.square();
//!     squares.sum(Kind::Float).double_value(&[])
//! }
//!
//! let profiling = Profiler::new().start()?;
//! sum(1024);
//! let recording = profiling.finish();
//! println!("{}", recording.lines().function("sum").columns([Column::Peak, Column::Rise, Column::Hits]));
//! # let shown = recording.lines().function("sum").columns([Column::Rise, Column::Hits]).to_string();
//! # assert!(shown.contains("1.00M     1"), "{shown}");
//! # Ok::<(), toma_torch::Error>(())
//! ```
//!
//! A program that is started with the variable `TOMA_PROFILE` needs no profiler: its values, and what Ctrl-C does,
//! are in the manual of `#[toma::profile]`. One recording runs at a time. A [`Profiler`] that is started while the
//! variable records, or beside another one, is an error. [`run()`] is both in one for notebooks.
//!
//! # Depths
//!
//! | | what is known | a step of 40 layers of 64 takes |
//! |---|---|---|
//! | no recording | | 1 |
//! | [`Depth::Lines`] | bytes by line, and what fills the memory by line | 1.03 |
//! | [`Depth::Events`] | also operators, the order of events, what the peak is of, the files | 1.32 |
//!
//! `cargo xtask bench profile` measures the ratios, in processor time of one thread. An operator on more data costs
//! more and a mark does not: at a width of 256 `Events` takes 1.07. Events are a ring of a million, 32 bytes each;
//! [`Profiler::events`] says how many, and [`Recording::lost_events`] how many were too many.
//!
//! # Tables of lines
//!
//! [`Recording::lines`] has one table for each function, in the order of the source. Its
//! [columns](Lines::columns) are, unless told, `peak`, `reserved` where a device reserves, and `fetched` where storages came back.
//!
//! | column | bytes, or what else is said |
//! |---|---|
//! | `peak` | the most that were allocated while the line ran, by whatever it called |
//! | `reserved` | the most that the allocator held while it ran |
//! | `rise` | the most by which it rose above what there was when it began |
//! | `current` | the most that were allocated when it ended |
//! | `allocated`, `freed`, `net` | all it allocated, freed, and the difference |
//! | `kept` | born in this line and alive now, on the device |
//! | `fetched`, `offloaded` | of storages that [managers](crate::offload) moved to the device, and off it |
//! | `backward` | allocated for the gradients of its operators |
//! | `hits`, `ooms`, `time` | how often it began, allocations that failed, how long it took |
//!
//! The line of the `fn` is the state at entry; a line that never ran is blank. What is freed at the end of a block
//! belongs to its `}`, what a `return` or a `?` drops to that line. [`Lines::operators`] shows the operators beneath
//! their lines, [`Lines::as_cuda`] what CUDA's caching allocator would have reserved; both need [`Depth::Events`].
//! A line that fetches has not allocated: what came back is in its `fetched` alone, and is kept by the line that made
//! it. Readings of the device, `peak`, `rise` and `current`, have it in them, so `fetched` is shown beside `peak` where
//! anything was. In a trace a fetch is another block of the same storage, born in the operator that asked.
//! What was in no marked function is one line at the end. [`Recording::diff`] tells which lines keep more than in an
//! earlier recording.
//!
//! # Names and categories
//!
//! | category | is | named by |
//! |---|---|---|
//! | parameter, buffer | a variable of a `VarStore` that is trained, or not | [`Profiler::variables`]: `conv.weight` |
//! | gradient | the gradient of a variable | the same: `conv.weight.grad` |
//! | optimizer state | what [`optimizer`] made and kept | the variable: `Adam.conv.weight.exp_avg` |
//! | input | labeled, or older than the recording or the attempt that failed | [`label`], [`Profiler::label`] |
//! | activation | waits for a backward, or without one for a later operator | its birth: `relu @ src/net.rs:42` |
//! | temporary | all else | its birth |
//! | unknown | an activation or a temporary | its birth |
//!
//! Where no operators are recorded, a birth is `src/net.rs:42`. Of operators those with a gradient are known there, too:
//! what is older than the last of them is an activation. What a line has made since is unknown. States have names if
//! the first step of their optimizer is recorded, and no manager moves them within it. Names stay with storages that
//! move.
//!
//! # Out of memory
//!
//! What filled the memory is gone when a failed attempt has unwound. A recording notes it at the failure. It is in
//! `Report::filled`, for the last failure of a call, in each event `Failed`, and under the line that `TOMA_LOG=1`
//! prints: the operator and line that asked, for how many bytes, and the largest holders. To note it takes 46 µs with
//! 1,000 living blocks. The operator that asked is known at both depths, operators of holders with [`Depth::Events`].
//!
//! ```
//! use tch::{Device, Kind, Tensor};
//! use toma_torch::cpu::Budget;
//! use toma_torch::profile::Profiler;
//!
//! #[toma::profile]
//! fn double(rows: usize) -> Tensor {
//!     let ones = Tensor::ones([rows as i64, 256], (Kind::Float, Device::Cpu));
//!     &ones + &ones
//! }
//!
//! let profiling = Profiler::new().start()?;
//! let _budget = Budget::beyond_allocated(1536 << 10);
//! let doubled = toma::execute::batch(1024, double); // 1 MiB and another one: no. 512 KiB twice: yes.
//! assert_eq!(doubled.size(), [512, 256]);
//! let filled = toma::report::last().unwrap().filled.unwrap();
//! assert!(filled.contains("asked for 1.00M"), "{filled}");
//! # drop(profiling);
//! # Ok::<(), toma_torch::Error>(())
//! ```
//!
//! [`Lines::by_attempt`] gives each size of a loop rows of its own, with what became of it. A program without marks
//! gets a row for each size of a loop. A dry run is a body that runs on tensors without memory to predict sizes; it
//! is in no row. A recording changes no size, no retry and no peak that a policy measures.
//!
//! # Threads and tasks
//!
//! Rows of all threads are merged, and what another thread frees is freed. An `async fn` is in a line while it is
//! polled, and in none while it waits.
//!
//! # Names of `pytorch_memlab`
//!
//! | there | here |
//! |---|---|
//! | `LineProfiler(f)`, `add_function` | `#[toma::profile]` on `f` |
//! | `with LineProfiler()`, `enable`, `disable` | [`Profiler::start`], [`Profiling::finish`] |
//! | `display`, `print_stats(func, columns)` | [`Recording::lines`] with [`function`](Lines::function), [`columns`](Lines::columns) |
//! | `@profile` | `#[toma::profile]` and `TOMA_PROFILE=1` |
//! | `@profile_every(10)` | `#[toma::profile(every = 10)]` |
//! | `set_target_gpu` | not needed: all devices are measured, [`Lines::device`] shows one |
//! | `clear_global_line_profiler` | [`clear`]; of a profiler [`Profiling::clear`] |
//! | `%mlrun` | [`run()`] |
//! | `MemReporter(model)`, `report()` | [`inventory()`] with [`variables`](Stocktaking::variables), printed with `{}` |
//! | `report(verbose=True)` | the same, with `{:#}` |
//! | `report(device=..)` | [`Stocktaking::device`] |
//! | `add_optimizer` | [`optimizer`] around the first step |
//! | `Courtesy` | [`offload::park`](crate::offload::park()) |
//!
//! Columns have their names there as well: `"active_bytes.all.peak".parse()` is [`Column::Peak`].
//!
//! # What is not seen
//!
//! - Memory beside libtorch's allocator: of Rust, of libraries that call `malloc`, of `from_blob`.
//! - CPU tensors from before [`cpu::count`](crate::cpu::count); the first recording calls it. Begin `main` with it.
//! - On a GPU, blocks that no marked function or its backward makes, and what frees them on other threads. Rows of GPUs
//!   and their inventory are not proven on a device.

mod attempts;
mod filled;
mod inventory;
mod named;
pub(crate) mod peak;
mod profiler;
mod recording;
mod run;
mod running;
mod states;
mod switch;

pub use inventory::{Stocktaking, inventory};
pub use profiler::{Depth, Profiler, Profiling};
pub use recording::{Peak, Recording};
pub use run::{Run, run};
pub use running::{label, optimizer};
// One list of imports suffices a program; the names are documented where they are made.
#[doc(hidden)]
pub use toma_core::marks::Column;
#[doc(hidden)]
pub use toma_trace::holdings::{Holdings, Inventory};
pub use toma_trace::lines::{Diff, Lines, NoEvents};

pub(crate) use attempts::register;
pub(crate) use switch::{install, print};

/// Forgets what the recording of `TOMA_PROFILE` has so far, as [`Profiling::clear`] does for others.
pub fn clear() {
    switch::clear();
}
