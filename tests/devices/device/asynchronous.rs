//! Tests that, on a device that others use, the turn of an asynchronous call ends however the call ends.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use toma::classify::{Class, OutOfMemory};
use toma::device::Ladder;
use toma::testing::{FakeDevice, FakeOutOfMemory};
use toma::{GlobalCache, NoCache, execute};

use crate::device::kit::{is_free, patient};
use crate::executor::{block_on, pause, poll};
use crate::kit::OUT_OF_MEMORY;

/// A wait bound that has passed when the test goes on.
const SOON: Duration = Duration::from_millis(20);

/// Holds bytes of the device in an attempt that is suspended between two polls.
fn holding(device: &FakeDevice, bytes: u64) -> Pin<Box<impl Future<Output = ()>>> {
    #[toma::batch(initial = 1, cache = NoCache, device = device)]
    async fn hold(size: usize, device: &FakeDevice, bytes: u64) {
        let _held = device.alloc(size as u64 * bytes).unwrap();
        std::future::pending::<()>().await;
    }
    let mut hold = Box::pin(hold(device, bytes));
    assert!(poll(hold.as_mut()).is_pending());
    hold
}

/// Each piece needs 10 bytes itself, and 10 more for each of its items while the inner loop does them.
#[toma::range(initial = 4, cache = NoCache, device = device, ladder = patient(), before_retry = pause().await)]
async fn outer(
    start: usize,
    end: usize,
    device: &FakeDevice,
    done: &Cell<usize>,
) -> Result<(), FakeOutOfMemory> {
    let _held = device.alloc(10 * (end - start) as u64)?;
    pause().await;
    let before = done.get();
    let result = inner(start, end, device, done).await;
    if result.is_err() {
        done.set(before);
    }
    result
}

#[toma::range(cache = NoCache, device = device, ladder = patient(), before_retry = pause().await)]
async fn inner(
    start: usize,
    end: usize,
    device: &FakeDevice,
    done: &Cell<usize>,
) -> Result<(), FakeOutOfMemory> {
    let _held = device.alloc(10 * (end - start) as u64)?;
    pause().await;
    // By now more bytes are needed than fit.
    let _more = device.alloc(10 * (end - start) as u64)?;
    pause().await;
    assert_eq!(done.get(), start, "items in order, each once");
    done.set(end);
    Ok(())
}

#[test]
fn nested_loops_dropped_anywhere() {
    for polls in 0.. {
        let (device, done) = (FakeDevice::new(50), Cell::new(0));
        let ended = {
            let mut future = pin!(outer(0, 8, &device, &done));
            (0..polls).any(|_| poll(future.as_mut()).is_ready())
        };
        assert!(is_free(&device));
        if ended {
            assert_eq!(done.get(), 8);
            assert!(polls > 20, "{polls} polls");
            return;
        }
        let mut future = pin!(outer(done.get(), 8, &device, &done));
        let done_before = done.get();
        block_on(future.as_mut()).unwrap();
        assert!(done.get() == 8 && done_before < 8);
    }
}

/// Drops the future after each number of polls: during the wait and at every await before it.
#[test]
fn nested_loops_dropped_while_they_wait() {
    for polls in 0..30 {
        let (device, done) = (FakeDevice::new(60), Cell::new(0));
        let other = holding(&device, 30);
        {
            let mut future = pin!(outer(0, 8, &device, &done));
            assert!((0..polls).all(|_| poll(future.as_mut()).is_pending()), "it waits for the other");
        }
        drop(other);
        assert!(is_free(&device));
    }
}

#[test]
fn a_stream_around_loops_dropped_anywhere() {
    for polls in 0.. {
        let (device, done, undone) = (FakeDevice::new(50), Cell::new(0), Cell::new(0));
        let ended = {
            let form = execute::with::<NoCache>().device(&device).ladder(patient());
            let form = form.before_retry(|_| undone.set(undone.get() + 1));
            let mut rows = form.stream(0..8, 4, async |start, end| {
                let _held = device.alloc(10 * (end - start) as u64)?;
                inner(start, end, &device, &done).await
            });
            (0..polls).any(|_| poll(pin!(rows.next())) == Poll::Ready(None))
        };
        assert!(is_free(&device));
        if ended {
            assert_eq!((done.get(), undone.get()), (8, 1));
            return;
        }
    }
}

/// Sibling loops inside one attempt share its turn: none waits, and they make each other shrink.
#[test]
fn loops_side_by_side_in_one_attempt() {
    #[toma::batch(initial = 4, cache = NoCache, device = device, ladder = patient())]
    async fn part(size: usize, device: &FakeDevice) -> Result<usize, FakeOutOfMemory> {
        let _some = device.alloc(10 * size as u64)?;
        pause().await;
        let _more = device.alloc(10 * size as u64)?;
        pause().await;
        Ok(size)
    }
    #[toma::batch(initial = 2, cache = NoCache, device = device, ladder = patient())]
    async fn both(size: usize, device: &FakeDevice) -> Result<[usize; 2], FakeOutOfMemory> {
        let _held = device.alloc(5 * size as u64)?;
        let (mut one, mut other) = (pin!(part(device)), pin!(part(device)));
        let (mut of_one, mut of_other) = (None, None);
        poll_fn(|context| {
            for (part, of_part) in [(&mut one, &mut of_one), (&mut other, &mut of_other)] {
                if of_part.is_none()
                    && let Poll::Ready(size) = part.as_mut().poll(context)
                {
                    *of_part = Some(size);
                }
            }
            if of_one.is_some() && of_other.is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok([of_one.unwrap()?, of_other.unwrap()?])
    }
    let device = FakeDevice::new(100);
    assert_eq!(block_on(both(&device)), Ok([1, 4]));
    assert!(is_free(&device));
}

/// Where the failure is: in a body that always fails, or in the code that runs after the failure.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Body,
    BodyAtRetry,
    Undo,
    DropOfError,
    DropOfPayload,
}

/// An out-of-memory error whose destructor may panic.
#[derive(Debug)]
struct Fragile(bool);

impl fmt::Display for Fragile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room")
    }
}

impl Error for Fragile {}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.0, "in a destructor");
    }
}

async fn fail(wrong: Wrong, size: usize, device: &FakeDevice) -> Result<(), Fragile> {
    let _held = device.alloc(1).unwrap();
    pause().await;
    match wrong {
        Wrong::Body => panic!("a mistake"),
        Wrong::BodyAtRetry if size < 4 => panic!("a mistake"),
        Wrong::DropOfPayload => panic_any(Fragile(true)),
        Wrong::BodyAtRetry | Wrong::Undo | Wrong::DropOfError => Err(Fragile(wrong == Wrong::DropOfError)),
    }
}

fn undo(wrong: Wrong) {
    assert!(wrong != Wrong::Undo, "{OUT_OF_MEMORY}, while undoing");
}

#[toma::batch(initial = 4, cache = &*cache, device = device, before_retry = undo(wrong))]
async fn goes_wrong(
    size: usize,
    wrong: Wrong,
    device: &FakeDevice,
    cache: &GlobalCache,
) -> Result<(), Fragile> {
    fail(wrong, size, device).await
}

#[test]
fn panics_go_through_and_leave_the_device() {
    toma::classify::add_error(|_: &Fragile| Some(Class::OutOfMemory));
    for (wrong, words) in [
        (Wrong::Body, "a mistake"),
        (Wrong::BodyAtRetry, "a mistake"),
        (Wrong::Undo, "CUDA out of memory. Tried to allocate 2.00 GiB, while undoing"),
        (Wrong::DropOfError, "in a destructor"),
        (Wrong::DropOfPayload, "in a destructor"),
    ] {
        let (device, cache) = (FakeDevice::new(100), GlobalCache::new());
        let check = |run: &mut dyn FnMut()| {
            let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
            let literal = payload.downcast_ref::<&str>().map(ToString::to_string);
            assert_eq!(payload.downcast_ref::<String>().cloned().or(literal).unwrap(), words);
            assert!(cache.entries().is_empty(), "nothing has succeeded");
            assert!(is_free(&device));
        };
        check(&mut || _ = block_on(goes_wrong(wrong, &device, &cache)));
        let form = execute::with::<NoCache>().cache(&cache).device(&device);
        let form = form.before_retry(|_| undo(wrong));
        let mut rows = form.stream(0..8, 4, async |start, end| fail(wrong, end - start, &device).await);
        check(&mut || _ = block_on(rows.next()));
        assert!(block_on(rows.next()).is_none(), "it has ended");
    }
}

/// An iterator may wait where it is asked outside of tasks, although it was asked in a task before.
#[test]
fn an_iterator_asked_in_a_task_and_then_outside() {
    #[toma::batch(initial = 1, cache = NoCache, device = device)]
    async fn asks(size: usize, device: &FakeDevice, rows: &mut dyn Iterator<Item = usize>) -> Option<usize> {
        assert_eq!((size, device.allocated_bytes()), (1, 0));
        rows.next()
    }
    let (device, tried) = (FakeDevice::new(100), RefCell::new(Vec::new()));
    let form = execute::with::<NoCache>().device(&device).ladder(Ladder::default().wait(SOON));
    let mut rows = form
        .iter(0..16, 8, |start, end| {
            tried.borrow_mut().push(end - start);
            device.alloc(10 * (end - start) as u64).map(|_| end - start)
        })
        .map(Result::unwrap);
    assert_eq!(block_on(asks(&device, &mut rows)), Some(8));
    let other = holding(&device, 60);
    assert_eq!(rows.next(), Some(4));
    drop(rows);
    assert_eq!(tried.into_inner(), [8, 8, 8, 4], "it waited for the other before it shrank");
    drop(other);
    assert!(is_free(&device));
}

/// A blocking loop between two tasks on a device, on the device itself or not.
#[derive(Clone, Copy, Debug)]
enum Blocks {
    OnDevice,
    Anywhere,
    Watched,
    Twice,
    WhileUndoing,
}

/// Runs `inside` in a loop that blocks.
fn block(blocks: Blocks, device: &FakeDevice, inside: &dyn Fn() -> Fitted) -> Fitted {
    let form = execute::with::<NoCache>();
    match blocks {
        Blocks::OnDevice => form.device(device).ladder(patient()).batch(1, |_| inside()),
        Blocks::Anywhere => form.batch(1, |_| inside()),
        Blocks::Watched => form.deadline(Duration::from_secs(600)).batch(1, |_| inside()),
        Blocks::Twice => form.batch(1, |_| block_on(nothing(&|| block(Blocks::Anywhere, device, inside)))),
        Blocks::WhileUndoing => {
            let (mut fits, mut tries) = (Ok(0), 0);
            let form = form.before_retry(|_| fits = inside());
            let result = form.batch(2, |_| {
                tries += 1;
                if tries == 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
            });
            result.map(|()| fits).unwrap()
        }
    }
}

/// A task without a device.
#[toma::batch(initial = 1, cache = NoCache)]
async fn nothing(size: usize, inside: &dyn Fn() -> Fitted) -> Fitted {
    pause().await;
    assert_eq!(size, 1);
    inside()
}

/// A size that fits.
type Fitted = Result<usize, FakeOutOfMemory>;

/// Returns the output of a future that waits for no other task.
fn poll_through<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let ends = (0..1000).find_map(|_| match poll(future.as_mut()) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    });
    ends.expect("it waits for a task of its own thread")
}

/// A blocking loop stands between the two tasks, so nothing inside it may wait for tasks of the thread. The innermost
/// loop shrinks, or gives way so that the outermost task waits.
#[test]
fn asynchronous_in_synchronous_in_asynchronous() {
    #[toma::batch(initial = 1, cache = NoCache, device = device, ladder = ladder)]
    async fn outermost(size: usize, device: &FakeDevice, ladder: Ladder<'_>, blocks: Blocks) -> Fitted {
        pause().await;
        assert_eq!(size, 1);
        block(blocks, device, &|| poll_through(pin!(innermost(device))))
    }
    #[toma::batch(initial = 1, cache = NoCache)]
    async fn without_device(size: usize, device: &FakeDevice, blocks: Blocks) -> Fitted {
        pause().await;
        assert_eq!(size, 1);
        block(blocks, device, &|| poll_through(pin!(innermost(device))))
    }
    use Blocks::{Anywhere, OnDevice, Twice, Watched, WhileUndoing};
    for blocks in [OnDevice, Anywhere, Watched, Twice, WhileUndoing] {
        let device = FakeDevice::new(100);
        assert_eq!(block_on(outermost(&device, patient(), blocks)).unwrap(), 8);
        let other = holding(&device, 60);
        assert_eq!(block_on(without_device(&device, blocks)).unwrap(), 4, "{blocks:?}");
        assert_eq!(
            block_on(outermost(&device, patient().without_waiting(), blocks)).unwrap(),
            4,
            "{blocks:?}"
        );
        let mut waits = pin!(outermost(&device, patient(), blocks));
        assert!((0..100).all(|_| poll(waits.as_mut()).is_pending()), "{blocks:?}");
        drop(other);
        assert_eq!(block_on(waits).unwrap(), 8, "{blocks:?}");
        assert!(is_free(&device));
    }
}

#[toma::batch(initial = 8, cache = NoCache, device = device, ladder = patient())]
async fn innermost(size: usize, device: &FakeDevice) -> Fitted {
    pause().await;
    device.alloc(10 * size as u64).map(|_| size)
}

/// Nests the same tasks with an iterator that was made outside and blocks at the place that asks it.
#[test]
fn asynchronous_in_an_iterator_from_outside() {
    #[toma::batch(initial = 1, cache = NoCache)]
    async fn asks(size: usize, rows: &mut impl Iterator<Item = Fitted>) -> Option<Fitted> {
        assert_eq!(size, 1);
        rows.next()
    }
    let device = FakeDevice::new(100);
    let mut rows =
        execute::with::<NoCache>().iter(0..2, 1, |_start, _end| poll_through(pin!(innermost(&device))));
    let other = holding(&device, 60);
    for _ in 0..2 {
        assert_eq!(block_on(asks(&mut rows)).unwrap().unwrap(), 4);
    }
    drop((rows, other));
    assert!(is_free(&device));
}

/// Where nothing blocks, the executor runs other tasks, and the outermost attempt waits.
#[test]
fn asynchronous_in_a_task_without_a_device_gives_way() {
    #[toma::batch(initial = 1, cache = NoCache)]
    async fn between(size: usize, device: &FakeDevice) -> Fitted {
        assert_eq!(size, 1);
        innermost(device).await
    }
    #[toma::batch(initial = 1, cache = NoCache, device = device, ladder = patient())]
    async fn outermost(size: usize, device: &FakeDevice, attempts: &Cell<usize>) -> Fitted {
        assert_eq!(size, 1);
        attempts.set(attempts.get() + 1);
        Box::pin(between(device)).await
    }
    let (device, attempts) = (FakeDevice::new(100), Cell::new(0));
    let other = holding(&device, 60);
    let mut waits = Box::pin(outermost(&device, &attempts));
    assert!((0..100).all(|_| poll(waits.as_mut()).is_pending()));
    drop(other);
    assert_eq!(block_on(waits.as_mut()).unwrap(), 8);
    assert_eq!(attempts.get(), 2);
    assert!(is_free(&device));
}
