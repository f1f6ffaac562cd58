//! Traces of a tensor program's steps: a [`Recorder`] makes a [`Trace`].
//!
//! A trace holds four tables on one clock: [storages](Storage) with their blocks of memory, [operators](Operator),
//! [uses](Use) of storages by operators, and [scopes](Scope) around operators. Derived data are computed and never
//! stored: [live bytes](Trace::live), their peak, and [their holders](Trace::holders). The recorder refuses
//! contradictions, so every trace is sound, also one that was [read](Trace::from_json).
//!
//! [`lines`] attributes memory to each line of a program, from a trace or while the program runs; [`holdings`] gives
//! the uses of storages and the contents of a full device; [`write`](mod@write) makes files for other programs.
//!
//! Nothing here depends on a tensor framework or a vendor.
//!
//! ```
//! use toma_trace::{Access, Operand, Place, Recorder, ThreadId};
//!
//! let (thread, gpu) = (ThreadId(0), Place::device("cuda", 0));
//! let mut recorder = Recorder::new();
//! let weights = recorder.existing(&gpu, 4000)?;
//! let operator = recorder.begin_operator(thread, "aten::relu");
//! let result = recorder.birth(thread, &gpu, 1000)?;
//! recorder.uses(operator, Operand::new(weights, Access::Reads, &[10, 100]))?;
//! recorder.uses(operator, Operand::new(result, Access::Makes, &[10, 25]))?;
//! recorder.end_operator(operator)?;
//! recorder.death(thread, result)?;
//! let trace = recorder.finish();
//!
//! let live = trace.live(&gpu);
//! assert_eq!((live.before(), live.peak().bytes, live.after()), (4000, 5000, 4000));
//! assert_eq!(trace.holders(&gpu, live.peak().tick)[0].storage, weights);
//! # Ok::<(), toma_trace::Contradiction>(())
//! ```

#![forbid(unsafe_code)]

mod builder;
// Called by an allocator and the attribute's marks while a step runs; programs start a profiler instead.
#[doc(hidden)]
pub mod counting;
mod event;
mod happenings;
pub mod holdings;
mod json;
pub mod lines;
mod live;
mod notebook;
pub mod operators;
mod place;
mod record;
mod sizes;
mod tables;
mod tick;
pub mod write;

pub use builder::TraceBuilder;
pub use event::{Event, Location, Mark, Memory, Node, Reader};
pub use json::Unreadable;
pub use live::{Holder, Live, Peak};
pub use place::{Place, UnknownPlace};
pub use record::{Contradiction, Open, Recorder};
pub use sizes::Size;
pub use tables::{
    Access, Attribute, Block, Interval, Label, Moment, Number, Operand, Operator, OperatorId, Scope, ScopeId,
    ScopeKind, Storage, StorageId, ThreadId, Trace, Use,
};
pub use tick::Tick;
