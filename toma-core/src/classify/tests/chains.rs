//! Real errors of every kind, in every wrapping.

use std::collections::TryReserveError;
use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use super::super::{Class, Classify, Failure, OutOfMemory, classify_error};
use super::chain;

const OOM: Class = Class::OutOfMemory;
const LARGEST: u64 = isize::MAX as u64;

/// Compiles only when the marker of `E` can be inferred.
fn classify<M, E: Classify<M>>(error: &E) -> Failure {
    error.classify()
}

fn failed_reserve() -> TryReserveError {
    Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).unwrap_err()
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, "arena is full")
}

/// An error with a text and a cause of any type.
#[derive(Debug)]
struct Wrapper<E>(&'static str, E);

impl<E> fmt::Display for Wrapper<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<E: Error + 'static> Error for Wrapper<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.1)
    }
}

#[test]
fn the_marker_is_inferred_for_every_supported_type() {
    fn generic<E: Error + 'static>(error: &E) -> Failure {
        classify(error)
    }
    let oom = || OutOfMemory::new(Some(7));
    let plain: Box<dyn Error> = Box::new(oom());
    let send: Box<dyn Error + Send> = Box::new(oom());
    let sync: Box<dyn Error + Send + Sync> = Box::new(oom());
    let shared: Arc<dyn Error + Send + Sync> = Arc::new(oom());
    let failures = [
        classify(&oom()),
        generic(&oom()),
        classify(&Wrapper("outer", oom())),
        classify(&io::Error::other(oom())),
        classify(&plain),
        classify(&send),
        classify(&sync),
        classify(&shared),
        classify(&Box::new(oom())),
        classify(&Arc::new(oom())),
        #[cfg(feature = "anyhow")]
        classify(&anyhow::Error::new(oom())),
    ];
    for (number, failure) in failures.into_iter().enumerate() {
        assert_eq!((failure.class, failure.requested_bytes), (OOM, Some(7)), "{number}");
    }
}

#[track_caller]
fn means(error: impl Into<Box<dyn Error>>, class: Class, requested: Option<u64>) {
    let failure = classify(&error.into());
    assert_eq!((failure.class, failure.requested_bytes), (class, requested), "{failure:?}");
}

#[test]
fn types_are_found_anywhere_and_win_over_texts() {
    let dynamic = |error: Box<dyn Error + Send + Sync>| Arc::<dyn Error + Send + Sync>::from(error);
    means(failed_reserve(), OOM, Some(LARGEST));
    assert!(classify(&failed_reserve()).message.starts_with("memory allocation failed"));
    means(Vec::<u64>::new().try_reserve_exact(usize::MAX).unwrap_err(), OOM, None);
    means(io::Error::from(io::ErrorKind::OutOfMemory), OOM, None);
    means(full(), OOM, None);
    // Wrappers that hide their content from `source`, or their type.
    let nested = io::Error::other(Wrapper("reading rows", io::Error::other(failed_reserve())));
    means(Wrapper("epoch 3", nested), OOM, Some(LARGEST));
    means(io::Error::other(Wrapper("reading rows", failed_reserve())), OOM, Some(LARGEST));
    means(Wrapper("epoch 3", dynamic(full().into())), OOM, None);
    means(Wrapper("epoch 3", Box::new(full())), OOM, None);
    means(Wrapper("epoch 3", Arc::new(full())), OOM, None);
    means(dynamic(fmt::Error.into()), Class::Other, None);
    for text in [
        "Could not initialize NNPACK! Reason: Out of memory.",
        "CUDA error: an illegal memory access was encountered",
        "Cuda failure 2 'out of memory'",
        "CUDNN_STATUS_INTERNAL_ERROR",
    ] {
        means(Wrapper(text, failed_reserve()), OOM, Some(LARGEST));
    }
    // A chain as deep as links are checked, and one that is deeper.
    means(chain(vec!["epoch 3".to_owned(); 63], failed_reserve()), OOM, Some(LARGEST));
    means(chain(vec!["epoch 3".to_owned(); 64], failed_reserve()), Class::Other, None);
}

#[test]
fn only_one_kind_of_io_error() {
    use io::ErrorKind::{Interrupted, NotFound, Other, PermissionDenied, StorageFull, WriteZero};
    for kind in [Interrupted, NotFound, Other, PermissionDenied, StorageFull, WriteZero] {
        assert_eq!(classify(&io::Error::from(kind)).class, Class::Other, "{kind:?}");
        // The text of the system's own message, without its type.
        assert_eq!(classify(&io::Error::new(kind, "Cannot allocate memory")).class, Class::Other, "{kind:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn enomem_of_the_system_is_out_of_memory() {
    let error = io::Error::from_raw_os_error(12);
    assert!(error.to_string().contains("Cannot allocate memory"), "the look-alike text: {error}");
    assert_eq!(classify(&error).class, OOM);
}

#[test]
fn the_outermost_known_text_decides_and_an_unknown_error_has_its_outermost_words() {
    let (known, look_alike) = ("CUDA error: out of memory", "Cuda failure 2 'out of memory'");
    let of = |outer, inner| classify(&Wrapper("epoch 3\nmore", Wrapper(outer, Wrapper(inner, fmt::Error))));
    assert_eq!(of(look_alike, known), Failure::new(Class::Other, look_alike));
    assert_eq!(of(known, look_alike), Failure::new(OOM, known));
    assert_eq!(of("shapes differ", "at layer 3"), Failure::new(Class::Other, "epoch 3"));
}

/// Its source is itself, and its `Display` fails.
#[derive(Debug)]
struct Broken(&'static str);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        Err(fmt::Error)
    }
}

impl Error for Broken {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

#[test]
fn a_cyclic_chain_ends_and_a_display_that_fails_is_no_panic() {
    assert_eq!(classify_error(&Broken("cyclic")), Failure::new(Class::Other, "cyclic"));
    assert_eq!(classify_error(&Broken("CUDA error: out of memory")).class, OOM);
}

#[cfg(feature = "anyhow")]
#[test]
fn anyhow_with_and_without_context() {
    use anyhow::{Context, anyhow};
    let typed = Err::<(), _>(failed_reserve()).context("epoch 3").context("training").unwrap_err();
    assert_eq!(classify(&typed).class, OOM);
    assert_eq!(classify(&anyhow!("CUDA error: out of memory").context("epoch 3")).class, OOM);
    assert_eq!(classify(&anyhow!("shapes differ")).class, Class::Other);
    let boxed: Box<dyn Error + Send + Sync> = typed.into();
    assert_eq!(classify(&boxed).class, OOM);
}
