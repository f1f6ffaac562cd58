//! Real errors of every kind, in every wrapping.

use std::collections::TryReserveError;
use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use super::super::{Class, Classify, Failure, OutOfMemory, classify_error};
use super::chain;

/// Compiles only when the marker of `E` can be inferred.
fn classify<M, E: Classify<M>>(error: &E) -> Failure {
    error.classify()
}

fn failed_reserve() -> TryReserveError {
    Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).unwrap_err()
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
    let oom = || OutOfMemory::new(Some(7));
    let plain: Box<dyn Error> = Box::new(oom());
    let send: Box<dyn Error + Send> = Box::new(oom());
    let sync: Box<dyn Error + Send + Sync> = Box::new(oom());
    let shared: Arc<dyn Error + Send + Sync> = Arc::new(oom());
    let failures = [
        classify(&oom()),
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
        assert_eq!(failure.class, Class::OutOfMemory, "{number}");
        assert_eq!(failure.requested_bytes, Some(7), "{number}");
    }
}

#[test]
fn the_marker_is_inferred_for_a_type_parameter() {
    fn generic<E: Error + 'static>(error: &E) -> Class {
        classify(error).class
    }
    assert_eq!(generic(&OutOfMemory::new(None)), Class::OutOfMemory);
    assert_eq!(generic(&fmt::Error), Class::Other);
}

#[test]
fn a_real_failed_reservation() {
    let failure = classify(&failed_reserve());
    assert_eq!(failure.class, Class::OutOfMemory);
    assert_eq!(failure.requested_bytes, Some(isize::MAX as u64));
    assert!(failure.message.starts_with("memory allocation failed"), "{failure:?}");
}

#[test]
fn a_reservation_beyond_any_capacity() {
    let error = Vec::<u64>::new().try_reserve_exact(usize::MAX).unwrap_err();
    assert_eq!(classify(&error).class, Class::OutOfMemory);
    assert_eq!(classify(&error).requested_bytes, None);
}

#[test]
fn only_one_kind_of_io_error() {
    use io::ErrorKind::{
        Interrupted, NotFound, Other, OutOfMemory, PermissionDenied, StorageFull, WriteZero,
    };
    assert_eq!(classify(&io::Error::from(OutOfMemory)).class, Class::OutOfMemory);
    assert_eq!(classify(&io::Error::new(OutOfMemory, "arena is full")).class, Class::OutOfMemory);
    for kind in [Interrupted, NotFound, Other, PermissionDenied, StorageFull, WriteZero] {
        assert_eq!(classify(&io::Error::from(kind)).class, Class::Other, "{kind:?}");
        // The words of the system's own message, without its type.
        assert_eq!(classify(&io::Error::new(kind, "Cannot allocate memory")).class, Class::Other, "{kind:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_system_says_enomem() {
    let error = io::Error::from_raw_os_error(12);
    assert!(error.to_string().contains("Cannot allocate memory"), "the look-alike text: {error}");
    assert_eq!(classify(&error).class, Class::OutOfMemory);
}

#[test]
fn an_io_error_hides_its_content_from_source() {
    let error = io::Error::other(Wrapper("reading rows", io::Error::other(failed_reserve())));
    assert_eq!(classify(&error).class, Class::OutOfMemory);
    assert_eq!(classify(&Wrapper("epoch 3", error)).class, Class::OutOfMemory);
}

#[test]
fn a_shared_or_boxed_error_hides_its_type() {
    let full = || io::Error::new(io::ErrorKind::OutOfMemory, "arena is full");
    let shared: Arc<dyn Error + Send + Sync> = Arc::new(full());
    assert_eq!(classify(&Wrapper("epoch 3", shared)).class, Class::OutOfMemory);
    assert_eq!(classify(&Wrapper("epoch 3", Box::new(full()))).class, Class::OutOfMemory);
    assert_eq!(classify(&Wrapper("epoch 3", Arc::new(full()))).class, Class::OutOfMemory);
    let other: Arc<dyn Error + Send + Sync> = Arc::new(fmt::Error);
    assert_eq!(classify(&other).class, Class::Other);
}

#[test]
fn a_type_wins_over_texts_above_it() {
    for text in [
        "Could not initialize NNPACK! Reason: Out of memory.",
        "CUDA error: an illegal memory access was encountered",
        "Cuda failure 2 'out of memory'",
        "CUDNN_STATUS_INTERNAL_ERROR",
    ] {
        let failure = classify(&Wrapper(text, failed_reserve()));
        assert_eq!(failure.class, Class::OutOfMemory, "{text}");
        assert_eq!(failure.requested_bytes, Some(isize::MAX as u64), "{text}");
    }
}

#[test]
fn the_outermost_known_text_decides() {
    let error =
        Wrapper("epoch 3", Wrapper("Cuda failure 2 'out of memory'", text("CUDA error: out of memory")));
    assert_eq!(classify(&error).class, Class::Other);
    let error =
        Wrapper("epoch 3", Wrapper("CUDA error: out of memory", text("Cuda failure 2 'out of memory'")));
    assert_eq!(classify(&error).class, Class::OutOfMemory);
    assert_eq!(classify(&error).message, "CUDA error: out of memory");
}

fn text(text: &'static str) -> Wrapper<fmt::Error> {
    Wrapper(text, fmt::Error)
}

#[test]
fn an_unknown_error_speaks_with_its_outermost_words() {
    let failure = classify(&Wrapper("epoch 3\nmore", Wrapper("shapes differ", fmt::Error)));
    assert_eq!(failure, Failure::new(Class::Other, "epoch 3"));
}

#[test]
fn depth_is_bounded() {
    let below = |links| chain(vec!["epoch 3".to_owned(); links], failed_reserve());
    assert_eq!(classify(&below(63)).class, Class::OutOfMemory, "the leaf is the last of 64 links");
    assert_eq!(classify(&below(64)).class, Class::Other);
}

#[derive(Debug)]
struct Cyclic;

impl fmt::Display for Cyclic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cyclic")
    }
}

impl Error for Cyclic {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

#[test]
fn a_cyclic_chain_ends() {
    assert_eq!(classify(&Cyclic), Failure::new(Class::Other, "cyclic"));
}

#[derive(Debug)]
struct Mute;

impl fmt::Display for Mute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CUDA error: out of memory")?;
        Err(fmt::Error)
    }
}

impl Error for Mute {}

#[test]
fn a_display_that_fails_is_no_panic() {
    assert_eq!(classify_error(&Mute).class, Class::OutOfMemory);
}

#[cfg(feature = "anyhow")]
#[test]
fn anyhow_with_and_without_context() {
    use anyhow::{Context, anyhow};
    let typed = Err::<(), _>(failed_reserve()).context("epoch 3").context("training").unwrap_err();
    assert_eq!(classify(&typed).class, Class::OutOfMemory);
    let text = anyhow!("CUDA error: out of memory").context("epoch 3");
    assert_eq!(classify(&text).class, Class::OutOfMemory);
    assert_eq!(classify(&anyhow!("shapes differ")).class, Class::Other);
    let boxed: Box<dyn Error + Send + Sync> = typed.into();
    assert_eq!(classify(&boxed).class, Class::OutOfMemory);
}
