//! Seats, as the engine uses them.

mod seats;
mod threads;
mod waits;

use crate::share::admission::Admission;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::hub::Hub;
use super::*;

const DEVICE: &str = "a device";
const UNBOUNDED: Bounds<'static> = Bounds { until: None, cancel: None };

/// For a test alone, so that it can tell whether anything is left in it.
fn hub() -> &'static Hub {
    Box::leak(Box::new(Hub::new()))
}

/// So much time from now.
fn within(time: Duration) -> Bounds<'static> {
    Bounds { until: Instant::now().checked_add(time), cancel: None }
}

/// Longer than any test takes: who waits so long has been forgotten.
fn ages() -> Bounds<'static> {
    within(Duration::from_secs(60))
}

fn alone<'a>(seat: &'a Seat, bounds: Bounds<'a>) -> Admission<'a> {
    seat.admission(Kind::Alone, None, bounds)
}

fn shared<'a>(seat: &'a Seat, bounds: Bounds<'a>) -> Admission<'a> {
    seat.admission(Kind::Shared, None, bounds)
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A task that waits.
struct Task<'a> {
    admission: Admission<'a>,
    woken: Arc<Count>,
}

impl<'a> Task<'a> {
    fn new(admission: Admission<'a>) -> Self {
        Self { admission, woken: Arc::default() }
    }

    /// One that has been polled once, and waits.
    fn waiting(admission: Admission<'a>) -> Self {
        let mut task = Self::new(admission);
        assert_eq!(task.poll(), None);
        task
    }

    fn poll(&mut self) -> Option<Admitted> {
        let waker = Waker::from(Arc::clone(&self.woken));
        match Pin::new(&mut self.admission).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(admitted) => Some(admitted),
            Poll::Pending => None,
        }
    }

    /// What comes of it, if somebody has woken it.
    fn poll_woken(&mut self) -> Option<Admitted> {
        if self.woken.0.swap(0, Relaxed) == 0 { None } else { self.poll() }
    }
}

/// Waits until it is so; whether it ever will be is what is tested.
fn until(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never came");
        thread::sleep(Duration::from_millis(1));
    }
}
