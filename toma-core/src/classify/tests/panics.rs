//! Panics as they are really raised, read from what `catch_unwind` hands over.

use std::any::Any;
use std::error::Error;
use std::panic::{self, AssertUnwindSafe, panic_any};
use std::{fmt, io};

use super::super::{Class, Failure, OutOfMemory, classify_panic};
use super::with_backtrace;

fn classify(body: impl FnOnce()) -> Failure {
    let payload = panic::catch_unwind(AssertUnwindSafe(body)).expect_err("the body must panic");
    classify_panic(&*payload)
}

/// What `unwrap` makes of a result, out of the compiler's sight.
fn of_unwrap<E: fmt::Debug>(result: Result<(), E>) -> Failure {
    classify(|| result.unwrap())
}

fn of_payload(payload: impl Any + Send) -> Class {
    classify(|| panic_any(payload)).class
}

#[derive(Debug)]
enum TchError {
    #[expect(dead_code, reason = "read by Debug, which is the point")]
    Torch(String),
}

#[test]
fn a_text_without_values() {
    assert_eq!(classify(|| panic!("CUDA error: out of memory")).class, Class::OutOfMemory);
    assert_eq!(classify(|| panic!("index out of bounds")).class, Class::Other);
}

#[test]
fn an_unwrapped_tch_error() {
    let text =
        with_backtrace("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a \"total\" capacity.");
    let failure = of_unwrap(Err(TchError::Torch(text)));
    assert_eq!(failure.class, Class::OutOfMemory);
    assert_eq!(failure.requested_bytes, Some(2 << 30));
    assert!(failure.message.ends_with("capacity."), "{failure:?}");
}

#[test]
fn an_unwrapped_reservation() {
    let failure = of_unwrap(Vec::<u8>::new().try_reserve_exact(isize::MAX as usize));
    assert_eq!(failure.class, Class::OutOfMemory);
    assert_eq!(failure.requested_bytes, Some(isize::MAX as u64));
}

#[test]
fn an_unwrapped_reservation_beyond_any_capacity() {
    let failure = of_unwrap(Vec::<u64>::new().try_reserve_exact(usize::MAX));
    assert_eq!(failure.class, Class::OutOfMemory);
}

#[test]
fn an_unwrapped_io_error() {
    let oom = || io::ErrorKind::OutOfMemory;
    for error in [oom().into(), io::Error::new(oom(), "arena is full"), io::Error::new(oom(), fmt::Error)] {
        assert_eq!(of_unwrap(Err(error)).class, Class::OutOfMemory);
    }
    let error = io::Error::other("Cannot allocate memory");
    assert_eq!(of_unwrap(Err(error)).class, Class::Other);
}

#[cfg(target_os = "linux")]
#[test]
fn an_unwrapped_enomem() {
    let failure = of_unwrap(Err(io::Error::from_raw_os_error(12)));
    assert_eq!(failure.class, Class::OutOfMemory);
    assert_eq!(classify(|| panic!("{}", io::Error::from_raw_os_error(12))).class, Class::Other);
}

#[test]
fn an_unwrapped_error_of_ours() {
    let failure = of_unwrap(Err(OutOfMemory::new(Some(9))));
    assert_eq!((failure.class, failure.requested_bytes), (Class::OutOfMemory, Some(9)));
}

#[test]
fn errors_as_payloads() {
    let reserve = || Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).unwrap_err();
    assert_eq!(of_payload(OutOfMemory::new(None)), Class::OutOfMemory);
    assert_eq!(of_payload(reserve()), Class::OutOfMemory);
    assert_eq!(of_payload(io::Error::from(io::ErrorKind::OutOfMemory)), Class::OutOfMemory);
    assert_eq!(of_payload(io::Error::other(reserve())), Class::OutOfMemory);
    assert_eq!(of_payload(Box::<dyn Error + Send + Sync>::from(reserve())), Class::OutOfMemory);
    let send: Box<dyn Error + Send> = Box::new(reserve());
    assert_eq!(of_payload(send), Class::OutOfMemory);
    #[cfg(feature = "anyhow")]
    assert_eq!(of_payload(anyhow::Error::new(reserve()).context("epoch 3")), Class::OutOfMemory);
}

#[test]
fn boxed_errors_that_are_something_else() {
    assert_eq!(of_payload(Box::<dyn Error + Send + Sync>::from("shapes differ")), Class::Other);
    assert_eq!(of_payload(io::Error::from(io::ErrorKind::NotFound)), Class::Other);
}

#[test]
fn payloads_of_unknown_types() {
    assert_eq!(of_payload(42_u8), Class::Other);
    assert_eq!(of_payload(()), Class::Other);
    // A vector of the words is not the words.
    assert_eq!(of_payload(vec!["CUDA error: out of memory"]), Class::Other);
}
