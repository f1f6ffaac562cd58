//! Panics as they are really raised, read from the payload of `catch_unwind`.

use std::any::Any;
use std::error::Error;
use std::hint::black_box;
use std::panic::{self, AssertUnwindSafe, panic_any};
use std::{fmt, io};

use super::super::{Class, Failure, OutOfMemory, classify_panic};
use super::with_backtrace;

const OOM: Class = Class::OutOfMemory;

fn classify(body: impl FnOnce()) -> Failure {
    let payload = panic::catch_unwind(AssertUnwindSafe(body)).expect_err("the body must panic");
    classify_panic(&*payload)
}

/// Unwraps an error, hidden from the compiler.
fn unwrapped<E: fmt::Debug>(error: E) -> Failure {
    classify(|| black_box(Err::<(), E>(error)).unwrap())
}

fn thrown(payload: impl Any + Send) -> Class {
    classify(|| panic_any(payload)).class
}

#[derive(Debug)]
enum TchError {
    #[expect(dead_code, reason = "read by Debug, which is the point")]
    Torch(String),
}

#[test]
fn a_text_without_values() {
    assert_eq!(classify(|| panic!("CUDA error: out of memory")).class, OOM);
    assert_eq!(classify(|| panic!("index out of bounds")).class, Class::Other);
}

#[test]
fn errors_that_were_unwrapped() {
    let tch =
        with_backtrace("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a \"total\" capacity.");
    let kind = io::ErrorKind::OutOfMemory;
    let reserve = |len| Vec::<u64>::new().try_reserve_exact(len).unwrap_err();
    let cases = [
        (unwrapped(TchError::Torch(tch.clone())), OOM, Some(2 << 30)),
        (unwrapped(reserve(isize::MAX as usize / 8)), OOM, Some(isize::MAX as u64 / 8 * 8)),
        (unwrapped(reserve(usize::MAX)), OOM, None),
        (unwrapped(io::Error::from(kind)), OOM, None),
        (unwrapped(io::Error::new(kind, "arena is full")), OOM, None),
        (unwrapped(io::Error::new(kind, fmt::Error)), OOM, None),
        (unwrapped(io::Error::other("Cannot allocate memory")), Class::Other, None),
        (unwrapped(OutOfMemory::new(Some(9))), OOM, Some(9)),
    ];
    for (number, (failure, class, requested)) in cases.into_iter().enumerate() {
        assert_eq!((failure.class, failure.requested_bytes), (class, requested), "{number}");
    }
    let message = unwrapped(TchError::Torch(tch)).message;
    assert!(message.ends_with("capacity."), "{message}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_unwrapped_enomem() {
    assert_eq!(unwrapped(io::Error::from_raw_os_error(12)).class, OOM);
    assert_eq!(classify(|| panic!("{}", io::Error::from_raw_os_error(12))).class, Class::Other);
}

#[test]
fn payloads_of_every_type() {
    let reserve = || Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).unwrap_err();
    let send: Box<dyn Error + Send> = Box::new(reserve());
    assert_eq!(thrown(OutOfMemory::new(None)), OOM);
    assert_eq!(thrown(reserve()), OOM);
    assert_eq!(thrown(io::Error::from(io::ErrorKind::OutOfMemory)), OOM);
    assert_eq!(thrown(io::Error::other(reserve())), OOM);
    assert_eq!(thrown(Box::<dyn Error + Send + Sync>::from(reserve())), OOM);
    assert_eq!(thrown(send), OOM);
    #[cfg(feature = "anyhow")]
    assert_eq!(thrown(anyhow::Error::new(reserve()).context("epoch 3")), OOM);
    assert_eq!(thrown(Box::<dyn Error + Send + Sync>::from("shapes differ")), Class::Other);
    assert_eq!(thrown(io::Error::from(io::ErrorKind::NotFound)), Class::Other);
    assert_eq!(thrown(42_u8), Class::Other);
    assert_eq!(thrown(()), Class::Other);
    // A vector of the text is not the text.
    assert_eq!(thrown(vec!["CUDA error: out of memory"]), Class::Other);
}
