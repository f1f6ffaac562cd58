//! Tasks that wait for their turn: without blocking the thread, and dropped at any time.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use toma::testing::{FakeDevice, FakeOutOfMemory};
use toma::{NoCache, execute};

use crate::kit::{Other, Watching, must_end, patient};

#[toma::range(initial = 8, cache = NoCache, device = device, ladder = patient(), observer = seen)]
async fn annotated(
    start: usize,
    end: usize,
    device: &FakeDevice,
    seen: &Watching,
) -> Result<(), FakeOutOfMemory> {
    device.alloc(10 * (end - start) as u64).map(drop)
}

impl toma::observe::Observer for &Watching {
    fn observe(&self, event: &toma::observe::Event<'_>) {
        (**self).observe(event);
    }
}

/// Wakes a thread, and remembers that it did.
struct Unpark(Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, SeqCst);
        self.0.unpark();
    }
}

/// Polls only when it is woken: a wake that is missing hangs.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let woken = Arc::new(Unpark(thread::current(), AtomicBool::new(true)));
    let (waker, mut future) = (Waker::from(Arc::clone(&woken)), pin!(future));
    loop {
        while !woken.1.swap(false, SeqCst) {
            thread::park();
        }
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
    }
}

pub(crate) fn poll_often<F: Future>(mut future: Pin<&mut F>) -> bool {
    (0..10).any(|_| future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready())
}

#[test]
fn a_task_waits_and_is_alone_then() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let seen = Watching::for_other(Other::on(&device, 60));
        block_on(annotated(0, 16, &device, &seen)).unwrap();
        let alone = ["again 8: alone", "waits with 8, others: 1", "waited, alone: true"];
        assert_eq!(seen.events()[..3], alone);
    });
}

#[test]
fn a_task_is_woken_when_the_other_ends() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let (other, seen) = (Other::on(&device, 60), Watching::default());
        let mut future = Box::pin(annotated(0, 8, &device, &seen));
        assert!(!poll_often(future.as_mut()));
        let ends = thread::spawn(move || other.end());
        block_on(future).unwrap();
        ends.join().unwrap();
        assert_eq!(seen.events().last().unwrap(), "waited, alone: true");
    });
}

#[test]
fn a_stream_waits_and_is_alone_then() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let seen = Watching::for_other(Other::on(&device, 60));
        let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient());
        let mut rows = with.stream(0..16, 8, async |start, end| {
            device.alloc(10 * (end - start) as u64).map(|_| end - start)
        });
        let mut sizes = Vec::new();
        while let Some(size) = block_on(rows.next()) {
            sizes.push(size.unwrap());
        }
        assert_eq!(sizes, [8, 8]);
        assert!(seen.waited());
    });
}

#[test]
fn a_future_dropped_while_it_waits_leaves_the_queue() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let (other, seen) = (Other::on(&device, 60), Watching::default());
        {
            let mut future = pin!(annotated(0, 8, &device, &seen));
            assert!(!poll_often(future.as_mut()));
            assert_eq!(seen.events().last().unwrap(), "waits with 8, others: 1");
        }
        let next = Watching::default();
        let with = execute::with::<NoCache>().device(&device).observer(&next).ladder(patient());
        with.batch(1, |_| ());
        assert!(!next.waited(), "nobody waits to be alone any more");
        other.end();
    });
}

#[test]
fn a_future_dropped_in_an_attempt_leaves_the_device() {
    #[toma::batch(initial = 2, cache = NoCache, device = device)]
    async fn waits_for_ever(size: usize, device: &FakeDevice) {
        assert_eq!((size, device.allocated_bytes()), (2, 0));
        std::future::pending::<()>().await;
    }
    must_end(|| {
        let device = FakeDevice::new(100);
        {
            let mut future = pin!(waits_for_ever(&device));
            assert!(!poll_often(future.as_mut()));
        }
        let (seen, mut fails) = (Watching::default(), true);
        let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient());
        with.batch(2, |_| if std::mem::take(&mut fails) { device.alloc(101).map(drop) } else { Ok(()) })
            .unwrap();
        assert!(!seen.waited());
    });
}

/// The thread belongs to other tasks meanwhile: their loops are not inside the attempt that waits.
#[test]
fn a_task_that_waits_in_its_attempt_is_an_other_to_the_tasks_of_its_thread() {
    #[toma::batch(initial = 1, cache = NoCache, device = device)]
    async fn holds(size: usize, device: &FakeDevice, end: &AtomicBool) -> Result<(), FakeOutOfMemory> {
        let _held = device.alloc(60 * size as u64)?;
        let turn = |_: &mut Context<'_>| if end.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending };
        std::future::poll_fn(turn).await;
        Ok(())
    }
    must_end(|| {
        let (device, end, seen) = (FakeDevice::new(100), AtomicBool::new(false), Watching::default());
        let (mut one, mut other) = (pin!(holds(&device, &end)), pin!(annotated(0, 8, &device, &seen)));
        assert!(!poll_often(one.as_mut()));
        assert!(!poll_often(other.as_mut()));
        assert_eq!(seen.events(), ["again 8: alone", "waits with 8, others: 1"]);
        end.store(true, SeqCst);
        assert!(poll_often(one.as_mut()));
        assert!(poll_often(other.as_mut()));
    });
}

/// It would wait for a task that its own thread has to poll.
#[test]
fn a_loop_that_blocks_in_a_task_does_not_wait() {
    #[toma::batch(initial = 1, cache = NoCache, device = device)]
    async fn holds(size: usize, device: &FakeDevice) -> Result<(), FakeOutOfMemory> {
        let _held = device.alloc(60 * size as u64)?;
        std::future::pending::<()>().await;
        Ok(())
    }
    #[toma::batch(initial = 1, cache = NoCache, device = device)]
    async fn blocks(size: usize, device: &FakeDevice, seen: &Watching) -> Result<usize, FakeOutOfMemory> {
        let with = execute::with::<NoCache>().device(device).ladder(patient()).observer(seen);
        with.batch(8, |batch| device.alloc(10 * (size * batch) as u64).map(|_| batch))
    }
    must_end(|| {
        let (device, seen) = (FakeDevice::new(100), Watching::default());
        let mut holds = pin!(holds(&device));
        assert!(!poll_often(holds.as_mut()));
        assert_eq!(block_on(blocks(&device, &seen)).unwrap(), 4);
        assert_eq!(seen.events(), ["shrinks from 8 to 4"]);
    });
}
