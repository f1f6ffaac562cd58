//! Other calls on a device, and what a call tells of its turns.

use std::io::{Write as _, stderr};
use std::process::abort;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use toma::device::Ladder;
use toma::observe::{Event, EventKind, Observer};
use toma::testing::{FakeDevice, FakeOutOfMemory};
use toma::{NoCache, execute};

/// A bound that no test reaches.
pub(crate) const PATIENT: Duration = Duration::from_secs(600);

pub(crate) fn patient() -> Ladder<'static> {
    Ladder::default().wait(PATIENT)
}

pub(crate) fn alloc(device: &FakeDevice, bytes: usize) -> Result<(), FakeOutOfMemory> {
    device.alloc(bytes as u64).map(drop)
}

/// An attempt of another thread, which holds bytes of the device.
pub(crate) struct Other {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Other {
    pub(crate) fn on(device: &FakeDevice, bytes: u64) -> Self {
        Self::with(Ladder::default(), device, bytes)
    }

    /// One that waits for nothing, and so comes beside exclusive attempts, too.
    pub(crate) fn intruding(device: &FakeDevice, bytes: u64) -> Self {
        Self::with(Ladder::default().without_waiting(), device, bytes)
    }

    fn with(ladder: Ladder<'static>, device: &FakeDevice, bytes: u64) -> Self {
        let ((stop, told), (tell, runs), device) = (channel(), channel(), device.clone());
        let thread = thread::spawn(move || {
            execute::with::<NoCache>().device(&device).ladder(ladder).batch(1, |_| {
                let _held = device.alloc(bytes).unwrap();
                tell.send(()).unwrap();
                told.recv().unwrap();
            });
        });
        runs.recv().unwrap();
        Self { stop, thread }
    }

    pub(crate) fn end(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

/// Writes down what becomes of a call, and ends the other attempt as soon as the call waits.
#[derive(Default)]
pub(crate) struct Watching {
    pub(crate) other: Mutex<Option<Other>>,
    events: Mutex<Vec<String>>,
}

impl Watching {
    pub(crate) fn for_other(other: Other) -> Self {
        Self { other: Mutex::new(Some(other)), ..Self::default() }
    }

    /// What happened since it was asked last, but for attempts that begin or succeed.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    pub(crate) fn has_waited(&self) -> bool {
        self.events.lock().unwrap().iter().any(|event| event.starts_with("waits"))
    }
}

impl Observer for Watching {
    fn observe(&self, event: &Event<'_>) {
        let line = match event.kind {
            EventKind::Waits { size, others } => {
                if let Some(other) = self.other.lock().unwrap().take() {
                    other.end();
                }
                format!("waits with {size}, others: {others}")
            }
            EventKind::Waited { exclusive, .. } => format!("waited, exclusive: {exclusive}"),
            EventKind::Answered { size, answer } => format!("at {size}: {answer}"),
            EventKind::Settled { size, .. } => format!("settled at {size}"),
            _ => return,
        };
        self.events.lock().unwrap().push(line);
    }
}

impl Observer for &Watching {
    fn observe(&self, event: &Event<'_>) {
        (**self).observe(event);
    }
}

/// What is told of an exclusive turn at this size, beside so many others as the wait begins.
pub(crate) fn exclusive_turn(size: usize, others: usize) -> [String; 2] {
    [format!("waits with {size}, others: {others}"), "waited, exclusive: true".to_owned()]
}

/// The same after a failure under contention.
pub(crate) fn exclusive_again(size: usize, others: usize) -> Vec<String> {
    let again = format!("at {size}: tries it once more, with the device to itself");
    [&[again], &exclusive_turn(size, others)[..]].concat()
}

/// Whether a new attempt has to wait, because another one waits or is exclusive.
pub(crate) fn must_wait(device: &FakeDevice) -> bool {
    let seen = Watching::default();
    let with = execute::with::<NoCache>().device(device).observer(&seen);
    // Ten times that long the device is not waited for: not at all.
    let hasty = with.ladder(Ladder::default().wait(Duration::ZERO));
    // Inside no attempt of this thread.
    thread::scope(|scope| scope.spawn(|| hasty.batch(1, |_| ())).join().unwrap());
    seen.has_waited()
}

/// Whether nothing runs or waits on the device, and nothing of it is allocated.
pub(crate) fn is_free(device: &FakeDevice) -> bool {
    let seen = Watching::default();
    let with = execute::with::<NoCache>().device(device).observer(&seen).ladder(patient());
    thread::scope(|scope| scope.spawn(|| with.batch(1, |_| alloc(device, 101)).unwrap_err()).join().unwrap());
    !seen.has_waited() && device.allocated_bytes() == 0
}

/// Ends the process, with the name of the test, where this lives for too long: a test that hangs cannot fail.
pub(crate) struct MustEnd(#[expect(dead_code, reason = "told by its end")] Sender<()>);

pub(crate) fn must_end() -> MustEnd {
    let ((ends, ended), test) = (channel(), thread::current());
    thread::spawn(move || {
        if ended.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            // Straight to the stream: what the test harness keeps is lost with the process.
            let _ = writeln!(stderr(), "{} hangs", test.name().unwrap_or("a test"));
            abort();
        }
    });
    MustEnd(ends)
}
