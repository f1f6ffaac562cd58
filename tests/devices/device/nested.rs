//! Loops inside attempts: nothing that holds a turn waits, and work that fits by itself succeeds, because a loop inside
//! gives way to the enclosing attempt, which is redone with the device to itself.

use std::error::Error;
use std::mem;
use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use toma::device::{Cancel, Ladder, falls_back};
use toma::testing::{FakeBuffer, FakeDevice, FakeOutOfMemory, StoppedClock};
use toma::{NoCache, execute};

use crate::device::kit::{Other, Watching, alloc, exclusive_again, is_free, must_end, must_wait, patient};
use crate::device::tasks::poll_often;
use crate::executor::{block_on_wakes as block_on, pause, poll};

const GAVE_WAY: &str = "gives up: the device was contended, and the enclosing attempt, if it fails, is retried with the device to itself";

/// A loop that holds so many bytes of one of two devices in each of its pieces.
#[derive(Clone, Copy, Debug)]
struct Level {
    pieces: usize,
    bytes: u64,
    device: usize,
}

const fn level(pieces: usize, bytes: u64) -> Level {
    Level { pieces, bytes, device: 0 }
}

/// Devices of the loops, and the way their bodies fail.
#[derive(Clone, Copy)]
struct Room<'a> {
    devices: &'a [FakeDevice; 2],
    /// Bodies panic when memory runs out, as those of tensor libraries do.
    throws: bool,
}

impl Room<'_> {
    fn alloc(self, bytes: u64, device: usize) -> Result<FakeBuffer, FakeOutOfMemory> {
        self.devices[device].alloc(bytes).inspect_err(|error| assert!(!self.throws, "{error}"))
    }

    /// Runs loops, each inside an attempt of the one before it.
    fn nested(self, levels: &[Level]) -> Result<(), FakeOutOfMemory> {
        let Some((&Level { pieces, bytes, device }, inner)) = levels.split_first() else {
            thread::sleep(Duration::from_micros(200));
            return Ok(());
        };
        let with = execute::with::<NoCache>().device(&self.devices[device]).ladder(patient());
        with.range(0..pieces, 1, |_, _| {
            let _held = self.alloc(bytes, device)?;
            self.nested(inner)
        })
    }

    /// Runs nested loops after all threads have begun an attempt and so see each other on the device.
    fn meeting(self, meet: &Barrier, levels: &[Level]) -> Result<(), FakeOutOfMemory> {
        let (Level { pieces, bytes, device }, inner) = (levels[0], &levels[1..]);
        let with = execute::with::<NoCache>().device(&self.devices[device]).ladder(patient());
        with.range(0..1 + pieces, 1, |start, _| {
            if start == 0 {
                meet.wait();
                return Ok(());
            }
            let _held = self.alloc(bytes, device)?;
            self.nested(inner)
        })
    }
}

/// Runs each on a thread of its own, and returns the results.
fn on_threads(works: &[Vec<Level>], throws: bool) -> Vec<Result<(), FakeOutOfMemory>> {
    let _must_end = must_end();
    let (devices, meet) = ([(); 2].map(|()| FakeDevice::new(100)), Barrier::new(works.len()));
    let results = thread::scope(|scope| {
        let work = |levels| Room { devices: &devices, throws }.meeting(&meet, levels);
        let threads: Vec<_> = works.iter().map(|levels| scope.spawn(move || work(levels))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(devices.iter().all(is_free));
    results
}

/// Asserts that loops on the first device alone succeed. On a second device, loops inside shrink instead of waiting.
fn all_succeed(works: &[Vec<Level>]) {
    for throws in [false, true] {
        if throws && works.iter().flatten().any(|level| level.device == 1) {
            continue;
        }
        for (work, result) in works.iter().zip(on_threads(works, throws)) {
            let may_fail = work.iter().any(|level| level.device == 1);
            assert!(result.is_ok() || may_fail, "{works:?} {work:?} {result:?}");
        }
    }
}

#[test]
fn all_that_fit_by_themselves_succeed_although_they_hold_what_others_need() {
    all_succeed(&vec![vec![level(1, 40), level(4, 40)]; 2]);
    all_succeed(&vec![vec![level(3, 10), level(3, 40)]; 8]);
    all_succeed(&(0..8).map(|of| vec![level(2, 10 * of), level(2, 90 - 10 * of)]).collect::<Vec<_>>());
    all_succeed(&vec![vec![level(1, 20), level(2, 20), level(2, 40)]; 2]);
    // Loops without pieces and without bytes.
    all_succeed(&[
        vec![level(1, 40), level(0, 90), level(1, 90)],
        vec![level(2, 40), level(2, 40), level(0, 90)],
        vec![level(1, 0), level(2, 100)],
        vec![level(0, 90)],
    ]);
}

/// Draws nested loops that fit by themselves.
fn drawn(random: &mut Rng) -> Vec<Level> {
    let mut left = 100;
    let levels = (0..random.usize(1..=3)).map(|_| {
        let bytes = random.u64(0..=left);
        left -= bytes;
        level(random.usize(0..=3), bytes)
    });
    levels.collect()
}

/// Draws nested loops, some of them with the innermost loop on another device.
fn drawn_on_two(random: &mut Rng) -> Vec<Level> {
    let mut levels = drawn(random);
    if random.bool() {
        let inmost = Level { device: 1, ..level(random.usize(0..=3), random.u64(0..=100)) };
        levels.truncate(random.usize(0..=levels.len()));
        levels.push(inmost);
    }
    levels
}

#[test]
fn whatever_fits_by_itself_succeeds() {
    for (seed, draw) in (0..150).flat_map(|seed| [(seed, drawn as fn(&mut Rng) -> _), (seed, drawn_on_two)]) {
        let mut random = Rng::with_seed(seed);
        let works: Vec<_> = (0..random.usize(2..=8)).map(|_| draw(&mut random)).collect();
        println!("seed {seed}: {works:?}");
        all_succeed(&works);
    }
}

#[test]
fn a_loop_that_does_not_fit_by_itself_gives_up_and_the_others_succeed() {
    let [fits, large] = [40, 61].map(|needs| vec![level(1, 40), level(2, needs)]);
    let results = on_threads(&[fits.clone(), large, fits], false);
    let error = results[1].as_ref().unwrap_err().to_string();
    // The loop had the whole device, except for the bytes that it held itself.
    assert_eq!(error, "fake device out of memory: tried to allocate 61 bytes, 60 of 100 free");
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
}

/// Each loop fails on the device of the other, and neither waits.
#[test]
fn a_on_b_while_b_on_a() {
    let _must_end = must_end();
    let (devices, meet) = ([(); 2].map(|()| FakeDevice::new(100)), Barrier::new(2));
    let work = |first: &FakeDevice, second: &FakeDevice| {
        let seen = Watching::default();
        let outer = execute::with::<NoCache>().device(first).ladder(patient());
        let result = outer.range(0..64, 64, |start, end| {
            let _outer = first.alloc((end - start) as u64)?;
            if end - start == 64 {
                meet.wait();
            }
            let inner = execute::with::<NoCache>().device(second).ladder(patient()).observer(&seen);
            inner.range(start..end, 64, |start, end| {
                let _inner = second.alloc((end - start) as u64)?;
                Ok::<_, FakeOutOfMemory>(())
            })
        });
        assert!(!seen.has_waited());
        result
    };
    let [one, other] = &devices;
    let results = thread::scope(|scope| {
        [scope.spawn(|| work(one, other)), scope.spawn(|| work(other, one))]
            .map(|thread| thread.join().unwrap())
    });
    assert_eq!(results, [Ok(()), Ok(())]);
    assert!(devices.iter().all(is_free));
}

/// Loops inside an attempt without `device` behave like loops outside, because that attempt holds no turn.
#[test]
fn outer_without_device() {
    let _must_end = must_end();
    let device = FakeDevice::new(100);
    let seen = Watching::for_other(Other::on(&device, 60));
    execute::with::<NoCache>()
        .batch(1, |_| {
            let inner = execute::with::<NoCache>().device(&device).ladder(patient()).observer(&seen);
            inner.batch(8, |size| alloc(&device, 10 * size))
        })
        .unwrap();
    assert_eq!(seen.take(), exclusive_again(8, 1));
}

type Recorded = Result<usize, Box<dyn Error + Send + Sync>>;

/// A loop inside an attempt while another call uses the device.
struct Beside {
    device: FakeDevice,
    /// Ends the other call when the outer loop waits.
    outer: Watching,
    inner: Watching,
}

impl Beside {
    fn another(bytes: u64) -> Self {
        let device = FakeDevice::new(100);
        let outer = Watching::for_other(Other::on(&device, bytes));
        Self { device, outer, inner: Watching::default() }
    }

    fn outside(&self, ladder: Ladder<'_>, most: usize, body: impl FnMut(usize) -> Recorded) -> Recorded {
        let with = execute::with::<NoCache>().device(&self.device).observer(&self.outer);
        with.ladder(ladder).max_attempts(most).batch(1, body)
    }

    /// Runs an inner loop that needs 80 bytes at once.
    fn inside(&self) -> Recorded {
        let with = execute::with::<NoCache>().device(&self.device).observer(&self.inner).ladder(patient());
        with.batch(8, |size| self.device.alloc(10 * size as u64).map(|_| size)).map_err(Into::into)
    }

    /// Runs an inner loop that leaves out items that do not fit by themselves.
    fn leaves_out(&self) -> Recorded {
        let with = execute::with::<NoCache>().device(&self.device).observer(&self.inner);
        let mut left_out = 0;
        let with = with.by_cost(|_| 8).left_out(|_| left_out += 1);
        with.range(0..1, 8, |_, _| alloc(&self.device, 80))?;
        Ok(left_out)
    }

    fn falls_back(&self) -> Recorded {
        let with = execute::with::<NoCache>().device(&self.device).observer(&self.inner);
        let with = with.ladder(Ladder::default().fallback(true)).min(8);
        with.batch(8, |_| if falls_back() { Ok(1) } else { alloc(&self.device, 80).map(|()| 0) })
            .map_err(Into::into)
    }

    fn end_other(&self) {
        if let Some(other) = self.outer.other.lock().unwrap().take() {
            other.end();
        }
    }

    fn end(self) {
        self.end_other();
        assert!(is_free(&self.device));
    }
}

/// A loop inside an attempt.
type Inner = fn(&Beside) -> Recorded;

/// The loop gives way before it shrinks, leaves items out or falls back.
#[test]
fn under_a_promise_a_loop_gives_way_at_its_first_contended_failure() {
    let _must_end = must_end();
    let inner: [(Inner, usize); 3] = [(Beside::inside, 8), (Beside::leaves_out, 0), (Beside::falls_back, 0)];
    for (inside, done) in inner {
        let beside = Beside::another(60);
        assert_eq!(beside.outside(patient(), 2, |_| inside(&beside)).unwrap(), done);
        assert_eq!(beside.inner.take(), [format!("at 8: {GAVE_WAY}")]);
        assert_eq!(beside.outer.take(), exclusive_again(1, 1));
        beside.end();
    }
}

/// A body that fails is redone whatever its error, although the others have ended meanwhile. One that succeeds has
/// succeeded: it may have done what must not be done twice.
#[test]
fn a_body_that_swallows_the_inner_error() {
    let _must_end = must_end();
    let swallows: [(fn() -> Recorded, _, _); 2] =
        [(|| Err("another error".into()), 8, exclusive_again(1, 0)), (|| Ok(0), 0, Vec::new())];
    for (swallowed, done, recorded) in swallows {
        let beside = Beside::another(60);
        let result = beside.outside(patient(), 2, |_| {
            let result = beside.inside();
            beside.end_other();
            result.or_else(|_| swallowed())
        });
        assert_eq!(result.unwrap(), done);
        assert_eq!(beside.outer.take(), recorded);
        beside.end();
    }
}

/// A poisoned device is not retried.
#[test]
fn a_body_that_fails_poisoned_is_not_redone() {
    let _must_end = must_end();
    let beside = Beside::another(60);
    let result = beside.outside(patient(), 2, |_| {
        beside.inside().unwrap_err();
        Err("CUDA error: an illegal memory access was encountered".into())
    });
    assert_eq!(result.unwrap_err().to_string(), "CUDA error: an illegal memory access was encountered");
    beside.end();
}

/// An attempt that is not redone after contention promises nothing, so the loop inside shrinks as usual.
#[test]
fn without_a_promise_a_loop_shrinks_leaves_out_and_falls_back() {
    let _must_end = must_end();
    let inner: [(Inner, usize, &str); 3] = [
        (Beside::inside, 4, "at 8: shrinks to 4"),
        (Beside::leaves_out, 1, "at 8: leaves out item 0, which costs 8"),
        (Beside::falls_back, 1, "at 8: falls back, from 8"),
    ];
    let cancel = Cancel::new();
    cancel.cancel();
    let promises_nothing =
        [(patient().without_waiting(), 2), (patient(), 1), (patient().cancelled_by(&cancel), 2)];
    for ((inside, done, recorded), (ladder, most)) in
        inner.into_iter().flat_map(|inside| promises_nothing.map(|outside| (inside, outside)))
    {
        let beside = Beside::another(60);
        assert_eq!(beside.outside(ladder, most, |_| inside(&beside)).unwrap(), done);
        assert_eq!(beside.inner.take(), [recorded]);
        assert!(beside.outer.take().is_empty());
        beside.end();
    }
}

#[test]
fn a_promise_counts_for_its_device_only() {
    let _must_end = must_end();
    let (beside, elsewhere) = (Beside::another(60), FakeDevice::new(100));
    let outer = execute::with::<NoCache>().device(&elsewhere).ladder(patient());
    assert_eq!(outer.batch(1, |_| beside.inside()).unwrap(), 4);
    assert_eq!(beside.inner.take(), ["at 8: shrinks to 4"]);
    beside.end();
    assert!(is_free(&elsewhere));
}

/// The attempt holds a turn on another device, which others may wait for.
#[test]
fn under_a_turn_on_another_device_an_attempt_does_not_queue() {
    let _must_end = must_end();
    let (beside, elsewhere) = (Beside::another(60), FakeDevice::new(100));
    let mut queued = pin!(inner(0, 1, &beside.device));
    assert!(!poll_often(queued.as_mut()) && must_wait(&beside.device));
    execute::with::<NoCache>().device(&elsewhere).batch(1, |_| {
        let with = execute::with::<NoCache>().device(&beside.device).ladder(patient());
        with.observer(&beside.inner).batch(1, |_| ());
    });
    assert!(!beside.inner.has_waited());
    beside.end_other();
    assert!(poll_often(queued.as_mut()));
    assert!(is_free(&beside.device));
}

/// An attempt makes no promise after a wait in vain, or while it is exclusive.
#[test]
fn an_attempt_that_was_redone_promises_nothing() {
    let _must_end = must_end();
    let beside = Beside::another(20);
    let other = Other::on(&beside.device, 40);
    let _clock = StoppedClock::new();
    let hasty = Ladder::default().wait(Duration::from_millis(1));
    assert_eq!(beside.outside(hasty, 9, |_| beside.inside()).unwrap(), 4);
    assert_eq!(beside.inner.take(), [format!("at 8: {GAVE_WAY}"), "at 8: shrinks to 4".into()]);
    assert_eq!(beside.outer.take()[1..], ["waits with 1, others: 2", "waited, exclusive: false"]);
    other.end();
    beside.end();

    let beside = Beside::another(60);
    let mut intruder = None;
    let result = beside.outside(patient(), 9, |_| {
        if beside.outer.has_waited() {
            intruder = Some(Other::intruding(&beside.device, 60));
        }
        beside.inside()
    });
    assert_eq!(result.unwrap(), 4);
    assert_eq!(beside.inner.take(), [format!("at 8: {GAVE_WAY}"), "at 8: shrinks to 4".into()]);
    intruder.unwrap().end();
    beside.end();
}

/// The attempt is redone next to the others, because the device is not waited for.
#[test]
fn a_promise_is_kept_although_another_call_has_waited_in_vain_since() {
    let _must_end = must_end();
    let (beside, mut first) = (Beside::another(60), true);
    let waits_in_vain = || {
        let _clock = StoppedClock::new();
        let hasty = Ladder::default().wait(Duration::from_millis(1));
        let with = execute::with::<NoCache>().device(&beside.device).ladder(hasty);
        with.batch(1, |_| alloc(&beside.device, 80)).unwrap_err();
    };
    let _clock = StoppedClock::new();
    let result = beside.outside(patient(), 9, |_| {
        if mem::take(&mut first) {
            thread::scope(|scope| scope.spawn(waits_in_vain).join().unwrap());
        }
        beside.inside()
    });
    assert_eq!(result.unwrap(), 4);
    assert_eq!(beside.inner.take(), [format!("at 8: {GAVE_WAY}"), "at 8: shrinks to 4".into()]);
    assert_eq!(beside.outer.take(), exclusive_again(1, 1)[..1]);
    beside.end();
}

#[toma::range(initial = 1, cache = NoCache, device = device, ladder = patient())]
async fn outer(
    start: usize,
    end: usize,
    device: &FakeDevice,
    meet: &AtomicUsize,
) -> Result<(), FakeOutOfMemory> {
    if start == 0 {
        meet.fetch_sub(1, SeqCst);
        while meet.load(SeqCst) > 0 {
            pause().await;
        }
        return Ok(());
    }
    let _held = device.alloc(40 * (end - start) as u64)?;
    pause().await;
    inner(0, 4, device).await
}

#[toma::range(initial = 1, cache = NoCache, device = device, ladder = patient())]
async fn inner(start: usize, end: usize, device: &FakeDevice) -> Result<(), FakeOutOfMemory> {
    let _needed = device.alloc(50 * (end - start) as u64)?;
    pause().await;
    Ok(())
}

#[test]
fn tasks_of_one_thread_and_of_several_succeed() {
    let _must_end = must_end();
    let (device, meet) = (FakeDevice::new(100), AtomicUsize::new(5));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| block_on(outer(0, 3, &device, &meet)).unwrap());
        }
        let mut tasks: Vec<_> = (0..3).map(|_| Box::pin(outer(0, 3, &device, &meet))).collect();
        while !tasks.is_empty() {
            thread::yield_now();
            tasks.retain_mut(|task| match poll(task.as_mut()) {
                Poll::Ready(result) => result.is_err(),
                Poll::Pending => true,
            });
        }
    });
    assert!(is_free(&device));
}
