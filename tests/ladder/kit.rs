//! Others on a device, and what a call tells of them.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use toma::device::Ladder;
use toma::observe::{Event, EventKind, Observer};
use toma::testing::{FakeDevice, StoppedClock};
use toma::{NoCache, execute};

/// More patience than a test has.
pub(crate) const PATIENT: Duration = Duration::from_secs(600);

pub(crate) fn patient() -> Ladder<'static> {
    Ladder::default().wait(PATIENT)
}

/// An attempt of another thread, which holds bytes of the device.
pub(crate) struct Other {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Other {
    pub(crate) fn on(device: &FakeDevice, bytes: u64) -> Self {
        let ((stop, told), (tell, runs), device) = (channel(), channel(), device.clone());
        let thread = thread::spawn(move || {
            execute::with::<NoCache>().device(&device).batch(1, |_| {
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

/// Ends the other attempt as soon as the call waits, and writes down what happens.
#[derive(Default)]
pub(crate) struct Watching {
    pub(crate) other: Mutex<Option<Other>>,
    events: Mutex<Vec<String>>,
}

impl Watching {
    pub(crate) fn for_other(other: Other) -> Self {
        Self { other: Mutex::new(Some(other)), ..Self::default() }
    }

    /// What happened, but for attempts that begin or succeed.
    pub(crate) fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    pub(crate) fn waited(&self) -> bool {
        self.events().iter().any(|event| event.starts_with("waits"))
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

/// Whether somebody waits to be alone on the device, or is: who comes new has to wait then.
pub(crate) fn somebody_waits(device: &FakeDevice) -> bool {
    let seen = Watching::default();
    let with = execute::with::<NoCache>().device(device).observer(&seen);
    let hasty = with.ladder(Ladder::default().wait(Duration::ZERO));
    let wait = || {
        // No time passes, so that what waits in vain keeps no other one from it.
        let _clock = StoppedClock::new();
        hasty.batch(1, |_| ());
    };
    // Inside no attempt of this thread.
    thread::scope(|scope| scope.spawn(wait).join().unwrap());
    seen.waited()
}

/// Runs `work` on a thread of its own, and fails when it does not end.
pub(crate) fn must_end<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, done) = channel();
    let thread = thread::spawn(move || {
        let result = work();
        let _ = tell.send(());
        result
    });
    match done.recv_timeout(Duration::from_secs(120)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("this hangs"),
        _ => thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)),
    }
}
