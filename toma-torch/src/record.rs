//! Recording of a step as a trace.
//!
//! # Why
//!
//! The shim writes plain events, and Rust makes a trace of them. So the mapping of addresses to storages, and the check
//! for contradictions, are tested without libtorch.

use toma_trace::{Trace, TraceBuilder};

use crate::cpu;
use crate::error::Error;
use crate::ffi::Recording;

/// Runs `step` and records its operators with their durations, the tensors that they read and make, and memory.
///
/// The value that `step` returns lives to the end of the trace. The recording covers this thread, and for CUDA also the
/// step's backward on other threads; memory that another thread frees seems to stay live. CPU tensors are recorded if
/// they are [counted](crate::cpu), as all are from the first call on. Recording takes about a microsecond for each
/// operator. On an asynchronous device a duration is that of the call, not of the work.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_trace::Place;
///
/// let input = Tensor::ones([8, 4], (Kind::Float, Device::Cpu));
/// let trace = toma_torch::record(|| input.matmul(&input.transpose(0, 1)).relu());
/// let names: Vec<&str> = trace.operators().map(|(_, operator)| &*operator.name).collect();
/// assert_eq!(names, ["aten::transpose.int", "aten::mm", "aten::relu"]);
/// assert!(trace.operators().all(|(_, operator)| operator.duration.is_some()));
/// // Two of 8 x 8, of which one is left, in addition to the input.
/// let live = trace.live(&Place::HOST);
/// assert_eq!((live.before(), live.peak().bytes, live.after()), (128, 128 + 512, 128 + 256));
/// ```
///
/// # Panics
/// When libtorch's own profiler runs on this thread, and when there is no memory for the recording.
pub fn record<R>(step: impl FnOnce() -> R) -> Trace {
    cpu::count();
    let recorded = Recording::begin().and_then(|recording| {
        let value = step();
        let trace = trace_of(&recording);
        drop(value);
        trace
    });
    recorded.unwrap_or_else(|error| panic!("record: {error}"))
}

/// Makes a trace of the recording so far.
pub(crate) fn trace_of(recording: &Recording) -> Result<Trace, Error> {
    let mut builder = TraceBuilder::new();
    recording.read(&mut builder)?;
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind, Tensor};
    use toma_trace::Access;

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
    fn operands_of_an_operator_are_recorded_with_shapes_and_numbers() {
        let input = ones().set_requires_grad(true);
        let trace = record(|| input.sum_dim_intlist([1].as_slice(), true, Kind::Float));
        let (_, operator) = trace.operators().next().unwrap();
        let dims = operator.attributes.iter().find(|attribute| attribute.name == "dim").unwrap();
        assert_eq!((&*operator.name, &*dims.values), ("aten::sum.dim_IntList", &[1][..]));
        let uses: Vec<_> = trace.uses().iter().map(|used| &used.operand).collect();
        let operands: Vec<_> = uses.iter().map(|operand| (operand.access, &*operand.shape)).collect();
        assert_eq!(operands, [(Access::Reads, &[4, 4][..]), (Access::Makes, &[4, 1][..])]);
        assert!(uses.iter().all(|operand| operand.wants_gradient));
    }
}
