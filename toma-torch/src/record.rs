//! A step as it was, written down as a trace.

use std::collections::BTreeMap;
use std::ffi::CStr;

use toma_trace::{
    Access, Contradiction, Label, Open, Operand, OperatorId, Place, Recorder, ScopeKind, StorageId, ThreadId,
    Trace,
};

use crate::error::{Error, ErrorKind};
use crate::ffi::{Event, Recording};

/// Runs `step` and records what it does: operators, what they read and make, and memory.
///
/// What `step` returns lives to the end of the trace. Recorded is what this thread does, and for CUDA what
/// its backward does elsewhere; memory that another thread frees seems to live. It takes about a microsecond
/// for each operator.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_trace::Place;
///
/// let input = Tensor::ones([8, 4], (Kind::Float, Device::Cpu));
/// let trace = toma_torch::record(|| input.matmul(&input.transpose(0, 1)).relu());
/// let names: Vec<&str> = trace.operators().map(|(_, operator)| &*operator.name).collect();
/// assert_eq!(names, ["aten::transpose.int", "aten::mm", "aten::relu"]);
/// // Two of 8 x 8, of which one is left, beside the input.
/// let live = trace.live(&Place::HOST);
/// assert_eq!((live.before(), live.peak().bytes, live.after()), (128, 128 + 512, 128 + 256));
/// ```
///
/// # Panics
/// When libtorch's own profiler runs on this thread, and when there is no memory to write all down.
pub fn record<R>(step: impl FnOnce() -> R) -> Trace {
    let recorded = Recording::begin().and_then(|recording| {
        let value = step();
        let trace = trace_of(recording);
        drop(value);
        trace
    });
    recorded.unwrap_or_else(|error| panic!("record: {error}"))
}

/// Ends the recording.
pub(crate) fn trace_of(recording: Recording) -> Result<Trace, Error> {
    let mut written = Written::default();
    recording.finish(|thread, event| written.add(ThreadId(thread.into()), event).map_err(contradicts))?;
    Ok(written.recorder.finish())
}

fn contradicts(contradiction: Contradiction) -> Error {
    Error::new(ErrorKind::Other, format!("recorded step: {contradiction}"))
}

/// Events so far, and what the shim's numbers mean.
#[derive(Default)]
struct Written {
    recorder: Recorder,
    storages: Vec<StorageId>,
    open: BTreeMap<ThreadId, Vec<Open>>,
}

impl Written {
    fn add(&mut self, thread: ThreadId, event: Event<'_>) -> Result<(), Contradiction> {
        match event {
            Event::OperatorBegins(name) => {
                let operator = self.recorder.begin_operator(thread, &text(name));
                self.opened(thread, Open::Operator(operator));
            }
            Event::NodeBegins(name) => self.begin_scope(thread, ScopeKind::Node, name),
            Event::MarkBegins(name) => self.begin_scope(thread, ScopeKind::Attempt, name),
            Event::OperatorEnds | Event::NodeEnds | Event::MarkEnds => return self.end(thread),
            Event::Born(bytes, device) => {
                let storage = self.recorder.birth(thread, &place(device), bytes)?;
                self.storages.push(storage);
            }
            Event::Existed(bytes, device) => {
                let storage = self.recorder.existing(&place(device), bytes)?;
                self.storages.push(storage);
            }
            Event::Died(storage) => {
                let storage = self.storage(storage);
                self.recorder.death(thread, storage)?;
            }
            Event::Used(storage, access, shape, wants_gradient) => {
                let shape: Vec<u64> = shape.iter().map(|size| size.unsigned_abs()).collect();
                let operand = Operand {
                    wants_gradient,
                    ..Operand::new(self.storage(storage), ACCESSES[usize::from(access)], &shape)
                };
                if let Some(operator) = self.operator(thread) {
                    self.recorder.uses(operator, operand)?;
                }
            }
            Event::Attribute(name, values) => {
                if let Some(operator) = self.operator(thread) {
                    self.recorder.attribute(operator, &text(name), values)?;
                }
            }
        }
        Ok(())
    }

    fn begin_scope(&mut self, thread: ThreadId, kind: ScopeKind, name: &CStr) {
        let scope = self.recorder.begin_scope(thread, Label::new(kind, &text(name)));
        self.opened(thread, Open::Scope(scope));
    }

    fn opened(&mut self, thread: ThreadId, open: Open) {
        self.open.entry(thread).or_default().push(open);
    }

    /// Ends nest; one without a begin is of what began before the recording.
    fn end(&mut self, thread: ThreadId) -> Result<(), Contradiction> {
        match self.open.entry(thread).or_default().pop() {
            Some(Open::Operator(operator)) => self.recorder.end_operator(operator),
            Some(Open::Scope(scope)) => self.recorder.end_scope(scope),
            None => Ok(()),
        }
    }

    fn operator(&self, thread: ThreadId) -> Option<OperatorId> {
        match self.open.get(&thread)?.last()? {
            Open::Operator(operator) => Some(*operator),
            Open::Scope(_) => None,
        }
    }

    /// The shim numbers storages in the order in which it tells of them.
    fn storage(&self, number: u64) -> StorageId {
        self.storages[usize::try_from(number).expect("as many as were told of")]
    }
}

/// By the numbers of `toma_access`.
const ACCESSES: [Access; 4] = [Access::Reads, Access::Writes, Access::Makes, Access::Views];

fn text(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

/// By the numbers of `c10::DeviceType`.
pub(crate) fn place((kind, index): (u32, u32)) -> Place {
    match kind {
        0 => Place::HOST,
        1 => Place::device("cuda", index),
        10 => Place::device("vulkan", index),
        13 => Place::device("mps", index),
        other => Place::device(&format!("kind{other}"), index),
    }
}
