//! What cases are made of: values that tell when they are dropped, and futures that wait.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

thread_local! {
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Writes a word between the drops.
pub(crate) fn log(word: &str) {
    LOG.with_borrow_mut(|log| log.push(word.to_owned()));
}

/// Says its name when it is dropped.
#[derive(Debug, PartialEq)]
pub(crate) struct Loud(pub(crate) &'static str);

impl Loud {
    /// Something that holds on to the value.
    pub(crate) fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

impl Drop for Loud {
    fn drop(&mut self) {
        log(self.0);
    }
}

/// A temporary with a drop of its own.
pub(crate) struct Guard<'a>(&'a Loud);

impl Guard<'_> {
    pub(crate) fn len(&self) -> usize {
        self.0.0.len()
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        log(&format!("guard of {}", self.0.0));
    }
}

/// What a case answers, or how it panics, and what it drops.
pub(crate) fn run(case: fn() -> String) -> (String, Vec<String>) {
    LOG.take();
    let answer = catch_unwind(AssertUnwindSafe(case)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!("panics: {text:?}")
    });
    (answer, LOG.take())
}

/// Waits once.
#[derive(Default)]
pub(crate) struct Once(bool);

impl Future for Once {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        log("polled");
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Polls so often, and drops the future then.
pub(crate) fn poll_times<T>(times: u32, future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..times {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
    }
    log("dropped");
    None
}

/// Polls to the end.
pub(crate) fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}

pub(crate) fn is_send<T: Send>(value: T) -> T {
    value
}

pub(crate) fn is_static<T: Send + Sync + 'static>(value: T) -> T {
    value
}
