//! Recording of a step as a trace.
//!
//! # Why
//!
//! The shim writes plain events, and Rust makes a trace of them. So the mapping of addresses to storages, and the check
//! for contradictions, are tested without libtorch.

use std::time::Duration;

use toma_core::marks::Function;
use toma_trace::{Access, Contradiction, Label, Operand, Place, ScopeKind, Scribe, ThreadId, Trace};

use crate::cpu;
use crate::error::{Error, ErrorKind};
use crate::ffi::{Event, EventKind, Recording};

/// Runs `step` and records its operators, the tensors that they read and make, and memory.
///
/// The value that `step` returns lives to the end of the trace. The recording covers this thread, and for CUDA also the
/// step's backward on other threads; memory that another thread frees seems to stay live. CPU tensors are recorded if
/// they are [counted](crate::cpu), as all are from the first call on. Recording takes about a microsecond for each
/// operator.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_trace::Place;
///
/// let input = Tensor::ones([8, 4], (Kind::Float, Device::Cpu));
/// let trace = toma_torch::record(|| input.matmul(&input.transpose(0, 1)).relu());
/// let names: Vec<&str> = trace.operators().map(|(_, operator)| &*operator.name).collect();
/// assert_eq!(names, ["aten::transpose.int", "aten::mm", "aten::relu"]);
/// // Two of 8 x 8, of which one is left, in addition to the input.
/// let live = trace.live(&Place::HOST);
/// assert_eq!((live.before(), live.peak().bytes, live.after()), (128, 128 + 512, 128 + 256));
/// ```
///
/// # Panics
/// When libtorch's own profiler runs on this thread, and when there is no memory for the recording.
pub fn record<R>(step: impl FnOnce() -> R) -> Trace {
    recorded(step, trace_of)
}

/// Runs `step` as [`record`](record()) does, and records the duration of each operator.
///
/// On an asynchronous device this is the duration of the call, not of the work.
///
/// ```
/// use tch::{Device, Kind, Tensor};
///
/// let input = Tensor::ones([8, 4], (Kind::Float, Device::Cpu));
/// let trace = toma_torch::record_timed(|| input.relu());
/// assert!(trace.operators().all(|(_, operator)| operator.duration.is_some()));
/// ```
///
/// # Panics
/// As [`record`](record()) does.
pub fn record_timed<R>(step: impl FnOnce() -> R) -> Trace {
    recorded(step, |recording| written(recording, timed))
}

fn recorded<R>(step: impl FnOnce() -> R, read: impl FnOnce(&Recording) -> Result<Trace, Error>) -> Trace {
    cpu::count();
    let recorded = Recording::begin().and_then(|recording| {
        let value = step();
        let trace = read(&recording);
        drop(value);
        trace
    });
    recorded.unwrap_or_else(|error| panic!("record: {error}"))
}

/// Makes a trace of the recording so far.
pub(crate) fn trace_of(recording: &Recording) -> Result<Trace, Error> {
    written(recording, add)
}

/// Makes a trace by calling `write` for each event.
fn written(
    recording: &Recording,
    write: impl Fn(&mut Scribe, &Event<'_>) -> Result<(), Contradiction>,
) -> Result<Trace, Error> {
    let mut scribe = Scribe::new();
    recording.read(|event| {
        let contradicts = |refused: Contradiction| format!("recorded step: {refused}");
        write(&mut scribe, event).map_err(|refused| Error::new(ErrorKind::Other, contradicts(refused)))
    })?;
    Ok(scribe.finish())
}

/// Adds an event, and the duration of an operator that ends.
fn timed(scribe: &mut Scribe, event: &Event<'_>) -> Result<(), Contradiction> {
    if event.kind == EventKind::Ends
        && let Some(operator) = scribe.innermost(ThreadId(event.thread.into()))
    {
        scribe.recorder().duration(operator, Duration::from_nanos(event.bytes))?;
    }
    add(scribe, event)
}

fn add(scribe: &mut Scribe, event: &Event<'_>) -> Result<(), Contradiction> {
    let thread = ThreadId(event.thread.into());
    let scope = |kind| Label::new(kind, event.name);
    match event.kind {
        EventKind::OperatorBegins => drop(scribe.operator(thread, event.name)),
        EventKind::NodeBegins => scribe.scope(thread, scope(ScopeKind::Node)),
        EventKind::MarkBegins => scribe.scope(thread, scope(ScopeKind::Attempt)),
        EventKind::Ends => scribe.ends(thread)?,
        EventKind::Attribute => {
            if let Some(operator) = scribe.innermost(thread) {
                scribe.recorder().attribute(operator, event.name, event.numbers)?;
            }
        }
        EventKind::Number => {
            if let Some(operator) = scribe.innermost(thread) {
                scribe.recorder().number(operator, event.name, f64::from_bits(event.bytes))?;
            }
        }
        EventKind::Leaves => scribe.leaves(thread)?,
        EventKind::Enters => event.line.into_iter().for_each(|(function, line)| {
            let label = Label::new(ScopeKind::Function, &function.path());
            scribe.enters(thread, at(label, function, line));
        }),
        EventKind::Line => event.line.into_iter().for_each(|(function, line)| {
            scribe.line(thread, line_of(function, line));
        }),
        EventKind::LeftTo => event.line.into_iter().for_each(|(function, line)| {
            scribe.line(thread, line_of(function, line).with("resumed", &[]));
        }),
        // A tensor without elements has no memory.
        _ if event.address == 0 => {}
        EventKind::Born => drop(scribe.born(thread, event.address, &place(event.device), event.bytes)?),
        EventKind::Died => drop(scribe.died(thread, event.address, &place(event.device), event.bytes)?),
        EventKind::Reads => used(scribe, event, Access::Reads)?,
        EventKind::Writes => used(scribe, event, Access::Writes)?,
        EventKind::Makes => used(scribe, event, Access::Makes)?,
        EventKind::Views => used(scribe, event, Access::Views)?,
    }
    Ok(())
}

fn line_of(function: &Function, line: u32) -> Label {
    let text = function.lines.get(line as usize).map_or("", |line| line.text);
    at(Label::new(ScopeKind::Line, text), function, line)
}

fn at(label: Label, function: &Function, line: u32) -> Label {
    let number = function.lines.get(line as usize).map_or(0, |line| line.number);
    label.at(&function.shown_file(), number)
}

fn used(scribe: &mut Scribe, event: &Event<'_>, access: Access) -> Result<(), Contradiction> {
    let operator = scribe.innermost(ThreadId(event.thread.into()));
    let (Some(operator), [flags, sizes @ ..]) = (operator, event.numbers) else {
        return Ok(());
    };
    let shape: Vec<u64> = sizes.iter().map(|size| size.unsigned_abs()).collect();
    let storage = scribe.living(event.address, &place(event.device), event.bytes)?;
    let operand = Operand::new(storage, access, &shape);
    scribe.recorder().uses(
        operator,
        Operand { wants_gradient: flags & 1 != 0, is_written_by_host: flags & 2 != 0, ..operand },
    )
}

/// Device by the numbers of `c10::DeviceType`.
pub(crate) fn place((kind, index): (u32, u32)) -> Place {
    match kind {
        0 => Place::HOST,
        1 => Place::device("cuda", index),
        10 => Place::device("vulkan", index),
        13 => Place::device("mps", index),
        other => Place::device(&format!("kind{other}"), index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind, Tensor};

    use crate::dry_run;

    fn ones() -> Tensor {
        Tensor::ones([4, 4], (Kind::Float, Device::Cpu))
    }

    /// Ends the recording, and returns the names of its operators.
    fn names(recording: Recording) -> Vec<String> {
        let trace = trace_of(&recording);
        drop(recording);
        trace.unwrap().operators().map(|(_, operator)| operator.name.clone()).collect()
    }

    #[test]
    fn recorders_end_in_any_order() {
        let input = ones();
        let first = Recording::begin().unwrap();
        drop(input.relu());
        let second = Recording::begin().unwrap();
        drop(input.tanh());
        assert_eq!(names(first), ["aten::relu", "aten::tanh"]);
        let third = Recording::begin().unwrap();
        drop(input.exp());
        assert_eq!(names(second), ["aten::tanh", "aten::exp"]);
        drop(input.log());
        assert_eq!(names(third), ["aten::exp", "aten::log"]);
        drop(input.sin());
        assert_eq!(names(Recording::begin().unwrap()), [""; 0]);
    }

    #[test]
    fn a_recorder_sees_nothing_of_a_dry_run_inside_of_it() {
        let input = ones();
        let outer = Recording::begin().unwrap();
        let dry = dry_run(|| drop(input.relu())).unwrap();
        drop(input.tanh());
        assert_eq!(names(outer), ["aten::tanh"]);
        assert_eq!(dry.operators().len(), 1);
    }

    #[test]
    fn a_recorder_inside_of_a_dry_run_and_the_dry_run_see_the_same() {
        let input = ones();
        let mut inner = Vec::new();
        let dry = dry_run(|| {
            let recording = Recording::begin().unwrap();
            drop(input.relu());
            inner = names(recording);
        });
        assert_eq!((inner, dry.unwrap().operators().len()), (vec!["aten::relu".to_owned()], 1));
    }

    #[test]
    fn what_an_operator_takes_and_gives_is_told_with_shapes_and_numbers() {
        let input = ones().set_requires_grad(true);
        let trace = record(|| input.sum_dim_intlist([1].as_slice(), true, Kind::Float));
        let (_, operator) = trace.operators().next().unwrap();
        let dims = operator.attributes.iter().find(|attribute| attribute.name == "dim").unwrap();
        assert_eq!((&*operator.name, &*dims.values), ("aten::sum.dim_IntList", &[1][..]));
        let uses: Vec<_> = trace.uses().iter().map(|used| &used.operand).collect();
        let told: Vec<_> = uses.iter().map(|operand| (operand.access, &*operand.shape)).collect();
        assert_eq!(told, [(Access::Reads, &[4, 4][..]), (Access::Makes, &[4, 1][..])]);
        assert!(uses.iter().all(|operand| operand.wants_gradient));
    }
}
