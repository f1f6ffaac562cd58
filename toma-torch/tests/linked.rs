//! A program that is merely linked with this package: it calls only the loop, and tensors behave in every way as
//! libtorch's own.

use std::cell::RefCell;

use tch::{Device, Kind, TchError, Tensor};
use toma::classify::{Class, Classify as _};
use toma::{NoCache, execute};

const FLOATS: (Kind, Device) = (Kind::Float, Device::Cpu);

/// Fails with the host's out-of-memory error, which has no type in libtorch.
fn too_much() -> Result<Tensor, TchError> {
    Tensor::f_empty([1 << 60], FLOATS)
}

fn wrong() -> Result<Tensor, TchError> {
    Tensor::ones([2], FLOATS).f_reshape([3])
}

fn has_trace(result: &Result<Tensor, TchError>) -> bool {
    result.as_ref().unwrap_err().to_string().contains("frame #")
}

#[test]
fn attempts_are_guarded() {
    let mut records = Vec::new();
    execute::with::<NoCache>().batch(4, |batch_size| {
        records.push((Tensor::ones([2], FLOATS).set_requires_grad(true) * 2.0).requires_grad());
        tch::no_grad(|| assert!(batch_size < 2, "CUDA out of memory."));
    });
    assert_eq!(records, [true, true, true]);
}

#[test]
fn out_of_memory_has_a_backtrace_where_it_is_passed_on_and_only_there() {
    assert!(has_trace(&too_much()), "of an error outside any loop");
    let traces = RefCell::new(Vec::new());
    let outcome = execute::with::<NoCache>().batch(4, |_| {
        let result = too_much();
        assert_eq!(result.as_ref().unwrap_err().classify().class, Class::OutOfMemory);
        traces.borrow_mut().push(has_trace(&result));
        result
    });
    assert_eq!(*traces.borrow(), [false, false, true], "the last attempt is at the floor");
    assert!(has_trace(&outcome));
}

#[test]
fn a_loop_that_gives_up_inside_one_that_retries_needs_no_backtrace() {
    let mut traces = Vec::new();
    let done = execute::with::<NoCache>().batch(2, |outer| {
        let inner =
            execute::with::<NoCache>().batch(1, |_| if outer > 1 { too_much() } else { Ok(Tensor::new()) });
        traces.push(inner.as_ref().err().map(|_| has_trace(&inner)));
        inner.map(drop)
    });
    assert!(done.is_ok());
    assert_eq!(traces, [Some(false), None]);
}

#[test]
fn an_error_that_is_none_keeps_its_backtrace_in_an_attempt_that_would_be_retried() {
    let outcome = execute::with::<NoCache>().batch(8, |batch_size| {
        assert_eq!(batch_size, 8);
        let result = wrong();
        assert!(has_trace(&result));
        result
    });
    assert!(has_trace(&outcome));
}

#[test]
fn a_panic_that_is_passed_on_has_its_origin() {
    let payload = std::panic::catch_unwind(|| {
        execute::with::<NoCache>().batch(2, |_| drop(too_much().unwrap()));
    });
    let text = payload.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("DefaultCPUAllocator") && text.contains("frame #"), "{text}");
}
