//! Other calls on a device, and records of the turns of a call.

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

/// A wait bound that no test reaches.
pub(crate) const PATIENT: Duration = Duration::from_secs(600);

pub(crate) fn patient() -> Ladder<'static> {
    Ladder::default().wait(PATIENT)
}

pub(crate) fn alloc(device: &FakeDevice, bytes: usize) -> Result<(), FakeOutOfMemory> {
    device.alloc(bytes as u64).map(drop)
}

/// An attempt of another thread that holds bytes of the device.
pub(crate) struct Other {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Other {
    pub(crate) fn on(device: &FakeDevice, bytes: u64) -> Self {
        Self::with(Ladder::default(), device, bytes)
    }

    /// An attempt that waits for nothing, and so runs next to exclusive attempts, too.
    pub(crate) fn intruding(device: &FakeDevice, bytes: u64) -> Self {
        Self::with(Ladder::default().without_waiting(), device, bytes)
    }

    fn with(ladder: Ladder<'static>, device: &FakeDevice, bytes: u64) -> Self {
        let ((stop, stopped), (begin, runs), device) = (channel(), channel(), device.clone());
        let thread = thread::spawn(move || {
            execute::with::<NoCache>().device(&device).ladder(ladder).batch(1, |_| {
                let _held = device.alloc(bytes).unwrap();
                begin.send(()).unwrap();
                stopped.recv().unwrap();
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

/// Records the events of a call, and ends the other attempt as soon as the call waits.
#[derive(Default)]
pub(crate) struct Watching {
    pub(crate) other: Mutex<Option<Other>>,
    events: Mutex<Vec<String>>,
}

impl Watching {
    pub(crate) fn for_other(other: Other) -> Self {
        Self { other: Mutex::new(Some(other)), ..Self::default() }
    }

    /// Returns the events since the last call of this function, without attempts that begin or succeed.
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

/// Events of an exclusive turn at this size, with so many others on the device as the wait begins.
pub(crate) fn exclusive_turn(size: usize, others: usize) -> [String; 2] {
    [format!("waits with {size}, others: {others}"), "waited, exclusive: true".to_owned()]
}

/// Events of an exclusive turn after a failure under contention.
pub(crate) fn exclusive_again(size: usize, others: usize) -> Vec<String> {
    let again = format!("at {size}: tries it once more, with the device to itself");
    [&[again], &exclusive_turn(size, others)[..]].concat()
}

/// Returns true if a new attempt has to wait, because another one waits or is exclusive.
pub(crate) fn must_wait(device: &FakeDevice) -> bool {
    let seen = Watching::default();
    let with = execute::with::<NoCache>().device(device).observer(&seen);
    // Waits in vain are spaced by ten times the bound: with a bound of 0 every call may wait.
    let hasty = with.ladder(Ladder::default().wait(Duration::ZERO));
    // Runs on another thread, so that it is inside no attempt of this one.
    thread::scope(|scope| scope.spawn(|| hasty.batch(1, |_| ())).join().unwrap());
    seen.has_waited()
}

/// True if nothing runs or waits on the device, and nothing is allocated there.
pub(crate) fn is_free(device: &FakeDevice) -> bool {
    let seen = Watching::default();
    let with = execute::with::<NoCache>().device(device).observer(&seen).ladder(patient());
    thread::scope(|scope| scope.spawn(|| with.batch(1, |_| alloc(device, 101)).unwrap_err()).join().unwrap());
    !seen.has_waited() && device.allocated_bytes() == 0
}

/// Ends the process, with the name of the test, if the guard lives for too long: a test that hangs cannot fail.
pub(crate) struct MustEnd(#[expect(dead_code, reason = "its end is the signal")] Sender<()>);

pub(crate) fn must_end() -> MustEnd {
    let ((ends, ended), test) = (channel(), thread::current());
    thread::spawn(move || {
        if ended.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            // Written straight to the stream, because output captured by the test harness is lost with the process.
            let _ = writeln!(stderr(), "{} hangs", test.name().unwrap_or("a test"));
            abort();
        }
    });
    MustEnd(ends)
}
