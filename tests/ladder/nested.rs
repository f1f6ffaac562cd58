//! Threads and tasks that hold memory of a device in an attempt and need more in a loop inside it: whoever
//! fits alone succeeds, whatever the others do.

use std::future::{Future, poll_fn};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use toma::device::Cancel;
use toma::device::Ladder;
use toma::observe::{Event, EventKind, Observer, Reason};
use toma::testing::{FakeBuffer, FakeDevice, FakeOutOfMemory};
use toma::{NoCache, execute, report};

use crate::futures::{block_on, poll_often};
use crate::kit::{Other, Watching, must_end, patient, somebody_waits};

/// A loop, with so many bytes of one of two devices held in each of its pieces.
#[derive(Clone, Copy, Debug)]
struct Level {
    pieces: usize,
    bytes: u64,
    device: usize,
}

const fn level(pieces: usize, bytes: u64) -> Level {
    Level { pieces, bytes, device: 0 }
}

/// Where loops run, and how.
#[derive(Clone, Copy)]
struct Room<'a> {
    devices: &'a [FakeDevice; 2],
    /// What the innermost attempts do.
    inmost: &'a dyn Fn(),
    /// Bodies panic when memory runs out, as those of libraries do.
    throws: bool,
}

impl Room<'_> {
    fn alloc(self, bytes: u64, device: usize) -> Result<FakeBuffer, FakeOutOfMemory> {
        self.devices[device].alloc(bytes).inspect_err(|error| assert!(!self.throws, "{error}"))
    }

    /// Loops, each inside an attempt of the one before it.
    fn nested(self, levels: &[Level]) -> Result<(), FakeOutOfMemory> {
        let Some((&Level { pieces, bytes, device }, inner)) = levels.split_first() else {
            (self.inmost)();
            return Ok(());
        };
        let with = execute::with::<NoCache>().device(&self.devices[device]).ladder(patient());
        with.range(0..pieces, 1, |_, _| {
            let _held = self.alloc(bytes, device)?;
            self.nested(inner)
        })
    }

    /// The same, once all have come so far that each is seen by the others.
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

fn pause() {
    thread::sleep(Duration::from_micros(200));
}

/// What comes of each on a thread of its own.
fn on_threads(works: Vec<Vec<Level>>, throws: bool) -> Vec<Result<(), FakeOutOfMemory>> {
    must_end(move || {
        let (devices, meet) = ([(); 2].map(|()| FakeDevice::new(100)), Barrier::new(works.len()));
        let results = thread::scope(|scope| {
            let work = |levels| Room { devices: &devices, inmost: &pause, throws }.meeting(&meet, levels);
            let threads: Vec<_> = works.iter().map(|levels| scope.spawn(move || work(levels))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(devices.map(|device| device.allocated_bytes()), [0; 2]);
        results
    })
}

fn all_succeed(works: &[Vec<Level>]) {
    for throws in [false, true] {
        let results = on_threads(works.to_owned(), throws);
        assert!(results.iter().all(Result::is_ok), "{works:?} {results:?}");
    }
}

#[test]
fn two_that_hold_what_the_other_needs_both_succeed() {
    all_succeed(&vec![vec![level(1, 40), level(4, 40)]; 2]);
}

#[test]
fn many_that_hold_what_others_need_all_succeed() {
    all_succeed(&vec![vec![level(1, 30), level(4, 60)]; 3]);
    all_succeed(&vec![vec![level(3, 10), level(3, 40)]; 8]);
    all_succeed(&(0..8).map(|of| vec![level(2, 10 * of), level(2, 90 - 10 * of)]).collect::<Vec<_>>());
}

#[test]
fn three_deep_and_all_succeed() {
    all_succeed(&vec![vec![level(1, 20), level(2, 20), level(2, 40)]; 2]);
    all_succeed(&[vec![level(1, 30), level(2, 0), level(2, 50)], vec![level(2, 30), level(2, 50)]]);
}

#[test]
fn loops_without_pieces_and_without_bytes_are_in_nobodys_way() {
    all_succeed(&[
        vec![level(1, 40), level(0, 90), level(1, 90)],
        vec![level(2, 40), level(2, 40), level(0, 90)],
        vec![level(1, 0), level(2, 100)],
        vec![level(0, 90)],
    ]);
}

/// Draws loops that fit alone.
fn drawn(random: &mut Rng) -> Vec<Level> {
    let mut left = 100;
    let levels = (0..random.usize(1..=3)).map(|_| {
        let bytes = random.u64(0..=left);
        left -= bytes;
        level(random.usize(0..=3), bytes)
    });
    levels.collect()
}

/// The same, with the innermost loop on another device.
fn drawn_on_two(random: &mut Rng) -> Vec<Level> {
    let mut levels = drawn(random);
    let inmost = Level { device: 1, ..level(random.usize(0..=3), random.u64(0..=100)) };
    levels.truncate(random.usize(0..=levels.len()));
    levels.push(inmost);
    levels
}

fn all_drawn_succeed(drawn: fn(&mut Rng) -> Vec<Level>) {
    for seed in 0..150 {
        let mut random = Rng::with_seed(seed);
        let works: Vec<_> = (0..random.usize(2..=8)).map(|_| drawn(&mut random)).collect();
        println!("seed {seed}: {works:?}");
        all_succeed(&works);
    }
}

#[test]
fn whoever_fits_alone_succeeds() {
    all_drawn_succeed(drawn);
}

#[test]
fn whoever_fits_alone_succeeds_where_nobody_waits_while_it_holds_the_second_device() {
    all_drawn_succeed(drawn_on_two);
}

#[test]
fn who_does_not_fit_alone_gives_up_and_the_others_succeed() {
    let [fits, large] = [40, 61].map(|needs| vec![level(1, 40), level(2, needs)]);
    let results = on_threads(vec![fits.clone(), large, fits], false);
    let error = results[1].as_ref().unwrap_err().to_string();
    // It had all of the device, but for what it held itself.
    assert_eq!(error, "fake device out of memory: tried to allocate 61 bytes, 60 of 100 free");
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
}

#[test]
fn a_panic_half_way_leaves_the_device_to_the_others() {
    must_end(|| {
        let (devices, meet) = ([(); 2].map(|()| FakeDevice::new(100)), Barrier::new(6));
        let work = |breaks: bool| {
            let (left, levels) = (AtomicUsize::new(3), [level(2, 40), level(3, 40)]);
            let inmost = || {
                pause();
                if breaks && left.fetch_sub(1, SeqCst) == 1 {
                    resume_unwind(Box::new("half-way"));
                }
            };
            let room = Room { devices: &devices, inmost: &inmost, throws: false };
            catch_unwind(AssertUnwindSafe(|| room.meeting(&meet, &levels)))
        };
        let results = thread::scope(|scope| {
            let threads: Vec<_> = (0..6).map(|of| scope.spawn(move || work(of % 2 == 0))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for (of, result) in results.into_iter().enumerate() {
            assert_eq!(result.is_err(), of % 2 == 0, "of {of}");
            assert!(result.is_err() || result.unwrap().is_ok(), "of {of}");
        }
        assert_eq!(devices[0].allocated_bytes(), 0);
    });
}

/// It is older, but holds nothing, and waits for what the attempt around the other one holds.
#[test]
fn who_waits_at_the_top_is_passed_by_those_it_waits_for() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let (holds, held) = channel();
        thread::scope(|scope| {
            let (device, mut fails) = (&device, true);
            scope.spawn(move || {
                let form = || execute::with::<NoCache>().device(device).ladder(patient());
                form().batch(1, |_| {
                    let _held = device.alloc(40).unwrap();
                    holds.send(()).unwrap();
                    while !somebody_waits(device) {
                        thread::yield_now();
                    }
                    let needs = |_| device.alloc(if mem::take(&mut fails) { 61 } else { 60 }).map(drop);
                    form().batch(1, needs).unwrap();
                });
            });
            held.recv().unwrap();
            let seen = Watching::default();
            let with = execute::with::<NoCache>().device(device).ladder(patient()).observer(&seen);
            with.batch(1, |_| device.alloc(80).map(drop)).unwrap();
            // Whoever looks whether somebody waits may be one of the others.
            let events = seen.events();
            assert!(events[1].starts_with("waits with 1, others: "), "{events:?}");
            assert_eq!([&events[0], &events[2]], ["again 1: alone", "waited, alone: true"]);
            assert_eq!(events.len(), 3);
        });
    });
}

#[toma::range(initial = 1, cache = NoCache, device = device, ladder = patient())]
fn annotated(
    start: usize,
    end: usize,
    (device, meet): (&FakeDevice, &Barrier),
    needs: u64,
) -> Result<(), FakeOutOfMemory> {
    if start == 0 {
        meet.wait();
        return Ok(());
    }
    let _held = device.alloc(40 * (end - start) as u64)?;
    let with = execute::with::<NoCache>().device(device).ladder(patient());
    let rows = with.iter(0..3, 1, |_, _| {
        pause();
        device.alloc(needs).map(drop)
    });
    rows.collect()
}

#[test]
fn loops_inside_annotated_ones_succeed() {
    must_end(|| {
        let (device, meet) = (FakeDevice::new(100), Barrier::new(3));
        thread::scope(|scope| {
            for needs in [40, 50, 60] {
                let shared = (&device, &meet);
                scope.spawn(move || annotated(0, 3, shared, needs).unwrap());
            }
        });
        assert_eq!(device.allocated_bytes(), 0);
    });
}

#[toma::range(initial = 1, cache = NoCache, device = device, ladder = patient())]
async fn outer(start: usize, end: usize, device: &FakeDevice, meet: &Meet) -> Result<(), FakeOutOfMemory> {
    if start == 0 {
        meet.wait().await;
        return Ok(());
    }
    let _held = device.alloc(40 * (end - start) as u64)?;
    turn().await;
    inner(0, 4, device).await
}

#[toma::range(initial = 1, cache = NoCache, device = device, ladder = patient())]
async fn inner(start: usize, end: usize, device: &FakeDevice) -> Result<(), FakeOutOfMemory> {
    let _needed = device.alloc(50 * (end - start) as u64)?;
    turn().await;
    Ok(())
}

/// Both loops need more than there is together.
#[toma::batch(initial = 1, cache = NoCache, device = device, ladder = patient())]
async fn two_at_a_time(size: usize, device: &FakeDevice) -> Result<(), FakeOutOfMemory> {
    let _held = device.alloc(10 * size as u64)?;
    let (mut one, mut two) = (pin!(inner(0, 8, device)), pin!(inner(0, 8, device)));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        for (task, result) in [(one.as_mut(), &mut first), (two.as_mut(), &mut second)] {
            if result.is_none()
                && let Poll::Ready(done) = task.poll(context)
            {
                *result = Some(done);
            }
        }
        if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    first.expect("it is done").and(second.expect("it is done"))
}

#[test]
fn loops_at_a_time_inside_one_attempt_take_turns() {
    must_end(|| {
        let device = FakeDevice::new(100);
        block_on(two_at_a_time(&device)).unwrap();
        assert_eq!(device.allocated_bytes(), 0);
    });
}

/// Lets others run.
async fn turn() {
    let mut first = true;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// Until all have come.
struct Meet(AtomicUsize);

impl Meet {
    async fn wait(&self) {
        self.0.fetch_sub(1, SeqCst);
        while self.0.load(SeqCst) > 0 {
            turn().await;
        }
    }
}

#[test]
fn tasks_of_one_thread_and_of_several_succeed() {
    must_end(|| {
        let (device, meet) = (FakeDevice::new(100), Meet(AtomicUsize::new(5)));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| block_on(outer(0, 3, &device, &meet)).unwrap());
            }
            let mut tasks: Vec<_> = (0..3).map(|_| Box::pin(outer(0, 3, &device, &meet))).collect();
            while !tasks.is_empty() {
                thread::yield_now();
                tasks.retain_mut(|task| match poll_once(task.as_mut()) {
                    Poll::Ready(result) => {
                        result.unwrap();
                        false
                    }
                    Poll::Pending => true,
                });
            }
        });
        assert_eq!(device.allocated_bytes(), 0);
    });
}

fn poll_once<F: Future>(task: Pin<&mut F>) -> Poll<F::Output> {
    task.poll(&mut Context::from_waker(Waker::noop()))
}

/// Nobody runs or waits on the device: who fails there has no reason to wait.
fn is_left(device: &FakeDevice) -> bool {
    let seen = Watching::default();
    let with = execute::with::<NoCache>().device(device).observer(&seen).ladder(patient());
    with.batch(1, |_| device.alloc(101)).unwrap_err();
    !seen.waited()
}

#[test]
fn a_future_dropped_while_it_waits_inside_leaves_the_device() {
    #[toma::batch(initial = 1, cache = NoCache, device = device, ladder = patient())]
    async fn holds(size: usize, device: &FakeDevice) -> Result<(), FakeOutOfMemory> {
        let _held = device.alloc(40 * size as u64)?;
        inner(0, 2, device).await
    }
    must_end(|| {
        let device = FakeDevice::new(100);
        let other = Other::on(&device, 20);
        {
            let mut task = pin!(holds(&device));
            assert!(!poll_often(task.as_mut()));
            assert!(somebody_waits(&device));
        }
        assert!(!somebody_waits(&device));
        assert_eq!(device.allocated_bytes(), 20);
        other.end();
        assert!(is_left(&device));
    });
}

/// What comes of a loop that waits inside an attempt, when `ladder` or the deadline ends its wait.
fn ended_inside(ladder: Ladder<'_>, deadline: Duration, observer: &dyn Observer) -> (String, Option<Reason>) {
    let device = FakeDevice::new(100);
    let other = Other::on(&device, 20);
    let mut reason = None;
    let outer = execute::with::<NoCache>().device(&device).ladder(patient().without_waiting());
    let error = outer.batch(1, |_| {
        let _held = device.alloc(40)?;
        let with = execute::with::<NoCache>().device(&device).ladder(ladder).deadline(deadline);
        let result = with.observer(observer).batch(1, |_| device.alloc(50).map(drop));
        reason = report::last().unwrap().gave_up;
        result
    });
    other.end();
    assert!(is_left(&device));
    (error.unwrap_err().to_string(), reason)
}

#[test]
fn a_wait_inside_is_ended_by_its_deadline_its_bound_and_cancellation() {
    must_end(|| {
        let text = "fake device out of memory: tried to allocate 50 bytes, 40 of 100 free".to_owned();
        let (quiet, soon) = (Watching::default(), Duration::from_millis(100));
        let late = ended_inside(patient(), soon, &quiet);
        assert_eq!(late, (text.clone(), Some(Reason::Deadline)));
        let hasty = ended_inside(Ladder::default().wait(soon), Duration::MAX, &quiet);
        assert_eq!(hasty, (text.clone(), Some(Reason::NothingSmaller)));

        let cancel = Cancel::new();
        let (waits, waiting) = channel();
        let canceller = {
            let cancel = cancel.clone();
            thread::spawn(move || {
                waiting.recv().unwrap();
                cancel.cancel();
            })
        };
        let waits = Mutex::new(waits);
        let seen = |event: &Event<'_>| {
            if let EventKind::Waits { .. } = event.kind {
                waits.lock().unwrap().send(()).unwrap();
            }
        };
        let ended = ended_inside(patient().cancelled_by(&cancel), Duration::MAX, &seen);
        assert_eq!(ended, (text, Some(Reason::Cancelled)));
        canceller.join().unwrap();
    });
}
