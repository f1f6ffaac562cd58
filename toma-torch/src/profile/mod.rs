//! Memory profiler: bytes by line of source, live tensors by name, and the holders of memory when it runs out.
//!
//! Functions under `#[toma::profile]` report the line that runs. While a [`Profiler`] runs, every byte of CPU tensors
//! that is allocated or freed on any thread is counted for a line. The end of this page lists the gaps on GPUs.
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
//! A program that is started with the environment variable `TOMA_PROFILE` needs no profiler: the manual of
//! `#[toma::profile]` has its values and the effect of Ctrl-C. One recording runs at a time, so it is an error to start
//! a [`Profiler`] while the variable or another profiler records. [`run()`] starts and finishes a recording around a
//! closure, for notebooks.
//!
//! # Depths
//!
//! | | recorded | relative time of a step of 40 layers of width 64 |
//! |---|---|---|
//! | no recording | | 1 |
//! | [`Depth::Lines`] | bytes by line, and the lines that hold the memory when it runs out | 1.03 |
//! | [`Depth::Events`] | also operators, the order of events, the holders of the peak, the files | 1.32 |
//!
//! `cargo xtask bench profile` measures the ratios, in processor time of one thread. Operators take longer on more data
//! and their events do not: at a width of 256 `Events` takes 1.07. Events are kept in a ring of a million, 32 bytes
//! each; [`Profiler::events`] sets its length, and [`Recording::lost_events`] returns the number of events that did not
//! fit.
//!
//! # Tables of lines
//!
//! [`Recording::lines`] has one table for each function, in the order of the source. Its [columns](Lines::columns) are
//! by default `peak`, with `reserved` on devices that reserve memory and `fetched` if storages were fetched.
//!
//! | column | bytes, unless stated otherwise |
//! |---|---|
//! | `peak` | the most that were allocated while the line ran, including its callees |
//! | `reserved` | the most that the allocator held while it ran |
//! | `rise` | the most by which allocated bytes rose above those when it began |
//! | `current` | the most that were allocated when it ended |
//! | `allocated`, `freed`, `net` | all it allocated, freed, and the difference |
//! | `kept` | allocated by this line and live now, on the device |
//! | `fetched`, `offloaded` | of storages that [managers](crate::offload) moved to the device, and off it |
//! | `backward` | allocated for the gradients of its operators |
//! | `hits`, `ooms`, `time` | how often it began, failed allocations, and its duration |
//!
//! The line of the `fn` is the state at entry; a line that never ran is blank. Values that are freed at the end of a
//! block belong to its `}`, those that a `return` or a `?` drops to that line. [`Lines::operators`] shows the operators
//! beneath their lines, [`Lines::as_cuda`] the bytes that CUDA's caching allocator would have reserved; both need
//! [`Depth::Events`]. A line that fetches a storage has not allocated it: the bytes are in its `fetched` alone, and in
//! the `kept` of the line that made the storage. Readings of the device (`peak`, `rise` and `current`) include fetched
//! bytes, so `fetched` is shown next to `peak` if there are any. In a trace a fetch is another block of the same
//! storage, born in the operator that needed it. Bytes outside of marked functions are one line at the end.
//! [`Recording::diff`] shows the lines that keep more than in an earlier recording.
//!
//! # Names and categories
//!
//! | category | is | named by |
//! |---|---|---|
//! | parameter, buffer | a variable of a `VarStore` that is trained, or not | [`Profiler::variables`]: `conv.weight` |
//! | gradient | the gradient of a variable | the same: `conv.weight.grad` |
//! | optimizer state | made and kept by [`optimizer`] | the variable: `Adam.conv.weight.exp_avg` |
//! | input | labeled, or older than the recording or the attempt that failed | [`label`], [`Profiler::label`] |
//! | activation | waits for a backward, or without one for a later operator | its birth: `relu @ src/net.rs:42` |
//! | temporary | all else | its birth |
//! | unknown | an activation or a temporary | its birth |
//!
//! Without recorded operators, the birth is a line alone: `src/net.rs:42`. Operators with a gradient are known even
//! then: a block older than the last of them is an activation, and a younger one is unknown. States have names if the
//! first step of their optimizer is recorded, and no manager moves them within it. Names stay with storages that are
//! evicted and fetched.
//!
//! # Out of memory
//!
//! The tensors that filled the memory are gone once a failed attempt has unwound, so a recording notes them at the
//! failure: the operator and the line that requested memory, the requested bytes, and the largest holders. This note is
//! in `Report::filled` for the last failure of a call, in each event `Failed`, and under the line that `TOMA_LOG=1`
//! prints. Taking it costs 46 µs with 1,000 live blocks. The requesting operator is known at both depths, operators of
//! holders with [`Depth::Events`].
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
//! [`Lines::by_attempt`] gives each size of a loop rows of its own, with its outcome. A program without marks gets a
//! row for each size of a loop. A dry run, which runs a body on tensors without memory to predict sizes, is in no row.
//! A recording changes no size, no retry and no peak that a policy measures.
//!
//! # Threads and tasks
//!
//! Rows of all threads are merged; memory that another thread frees counts as freed. An `async fn` is in a line while
//! it is polled, and in none while it waits.
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
//! # Not recorded
//!
//! - Memory outside of libtorch's allocator: of Rust, of libraries that call `malloc`, of `from_blob`.
//! - CPU tensors from before [`cpu::count`](crate::cpu::count), which the first recording calls. Begin `main` with it.
//! - On a GPU, blocks that are allocated neither by a marked function nor by its backward, and frees on other threads.
//!   Rows and inventories of GPUs were not tested on a real GPU.

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
pub use switch::clear;
#[doc(inline)]
pub use toma_core::marks::Column;
// Re-exported so that one import list is enough; documented where they are defined.
#[doc(hidden)]
pub use toma_trace::holdings::{Holdings, Inventory};
#[doc(hidden)]
pub use toma_trace::lines::Lines;

pub(crate) use attempts::register;
pub(crate) use switch::{install, print};
