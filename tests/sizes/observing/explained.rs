//! Reports of calls that did more than shrink: why a size was retried, where the work moved, and which items were left
//! out.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use expect_test::expect;
use toma::classify::OutOfMemory;
use toma::device::{Cancel, Ladder, falls_back};
use toma::observe::{Event, EventKind};
use toma::testing::{FakeDevice, StoppedClock, inject};
use toma::{GlobalCache, NoCache, execute};

use crate::observing::shown::shows;

fn fails(_: usize, _: usize) -> Result<(), OutOfMemory> {
    Err(OutOfMemory::new(None))
}

/// Tokens of texts, the third of which fits nowhere.
const TOKENS: [u64; 12] = [30, 30, 500, 30, 30, 30, 30, 30, 30, 30, 30, 10];

fn embed(start: usize, end: usize) -> Result<(), OutOfMemory> {
    let room = if falls_back() { 900 } else { 70 };
    if TOKENS[start..end].iter().sum::<u64>() > room { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

/// An observer that acts when the call waits.
fn on_wait(act: impl Fn()) -> impl Fn(&Event<'_>) {
    move |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Waits { .. }) {
            act();
        }
    }
}

#[test]
fn a_wait_for_the_device() {
    let device = FakeDevice::new(100);
    beside_another(&device, |other| {
        let observer = on_wait(|| drop(other.lock().unwrap().take()));
        let with = execute::with::<NoCache>().device(&device).observer(&observer).name("embed");
        with.range(0..16, 8, |start, end| device.alloc(10 * (end - start) as u64).map(drop)).unwrap();
    });
    shows(&expect![[r#"
        embed: 16 items in 3 attempts, 1 out of memory
          started  at 8, nothing was remembered
          tried    8 -> 8 again, with the device to itself (waited TIME), worked 2 times
          lost     TIME of TIME (SHARE %) in attempts that failed
          waited   TIME for the device
          next     starts at 8 again
    "#]]);
}

/// Keeps an attempt of another thread going until it is dropped.
type Other = Mutex<Option<Sender<()>>>;

/// Runs `work` while an attempt of another thread holds 60 bytes. The attempt ends shortly after `work` is done or
/// drops the sender.
fn beside_another(device: &FakeDevice, work: impl FnOnce(&Other)) {
    thread::scope(|scope| {
        let ((goes_on, ends), (begun, begins)) = (channel(), channel());
        scope.spawn(move || {
            execute::with::<NoCache>().device(device).batch(1, |_| {
                let _held = device.alloc(60).unwrap();
                begun.send(()).unwrap();
                let _ = ends.recv();
                thread::sleep(Duration::from_millis(3));
            });
        });
        begins.recv().unwrap();
        work(&Mutex::new(Some(goes_on)));
    });
}

#[test]
fn a_wait_in_vain() {
    let device = FakeDevice::new(100);
    beside_another(&device, |_| {
        let ladder = Ladder::default().wait(Duration::from_millis(2));
        let with = execute::with::<NoCache>().device(&device).ladder(ladder).name("embed");
        with.range(0..4, 8, |start, end| device.alloc(20 * (end - start) as u64).map(drop)).unwrap();
    });
    shows(&expect![[r#"
        embed: 4 items in 4 attempts, 2 out of memory
          started  at 4, nothing was remembered
          tried    4 -> 4 again (waited TIME in vain for the device) -> 2 worked 2 times
          learned  2 works, 4 does not; 2 is at least 50 % of the limit
          lost     at least TIME in attempts that failed
          waited   TIME for the device
          next     starts at 4 again, because NoCache remembers nothing
    "#]]);
}

#[test]
fn a_wait_that_the_deadline_ends() {
    const DEADLINE: Duration = Duration::from_millis(50);
    thread_local! {
        static CLOCK: Cell<Option<StoppedClock>> = const { Cell::new(None) };
    }
    let device = FakeDevice::new(100);
    beside_another(&device, |_| {
        CLOCK.set(Some(StoppedClock::new()));
        let observer = on_wait(|| {
            let clock = CLOCK.take().expect("stopped above");
            clock.advance(DEADLINE);
            CLOCK.set(Some(clock));
        });
        let with = execute::with::<NoCache>().device(&device).observer(&observer).name("embed");
        let with = with.deadline(DEADLINE);
        with.range(0..4, 8, |start, end| device.alloc(20 * (end - start) as u64).map(drop)).unwrap_err();
        CLOCK.take();
    });
    shows(&expect![[r#"
        embed: gave up at 0 of 4 items after 2 attempts, 2 out of memory
          started  at 4, nothing was remembered
          tried    4 -> 4 again (waited TIME in vain for the device) -> gave up
          why      the deadline has passed
          lost     TIME in attempts that failed
          waited   TIME for the device
          next     starts at 4 again, because nothing was settled
    "#]]);
}

#[test]
fn a_wait_that_is_cancelled() {
    let (device, cancel) = (FakeDevice::new(100), Cancel::new());
    beside_another(&device, |_| {
        let ladder = Ladder::default().cancelled_by(&cancel);
        let observer = on_wait(|| {
            thread::sleep(Duration::from_millis(2));
            cancel.cancel();
        });
        let with = execute::with::<NoCache>().device(&device).ladder(ladder).observer(&observer);
        let with = with.name("embed");
        with.range(0..4, 8, |start, end| device.alloc(20 * (end - start) as u64).map(drop)).unwrap_err();
    });
    shows(&expect![[r#"
        embed: gave up at 0 of 4 items after 2 attempts, 2 out of memory
          started  at 4, nothing was remembered
          tried    4 -> 4 again (waited TIME in vain for the device) -> gave up
          why      the call is cancelled
          lost     TIME of TIME (SHARE %) in attempts that failed
          waited   TIME for the device
          next     starts at 4 again, because nothing was settled
    "#]]);
}

#[test]
fn cached_memory_that_is_released() {
    let first = Cell::new(true);
    let with = execute::with::<NoCache>().ladder(Ladder::default().release_and_retry(true)).name("embed");
    let device = FakeDevice::new(10);
    with.device(&device)
        .range(0..16, 8, |_, _| if first.replace(false) { Err(OutOfMemory::new(None)) } else { Ok(()) })
        .unwrap();
    shows(&expect![[r#"
        embed: 16 items in 3 attempts, 1 out of memory
          started  at 8, nothing was remembered
          tried    8 -> 8 again, cached memory released, worked 2 times
          lost     the time of 1 attempt, not measured without an observer
          next     starts at 8 again
    "#]]);
}

#[test]
fn a_fallback() {
    let with = execute::with::<GlobalCache>().ladder(Ladder::default().fallback(true)).min(4).name("embed");
    with.range(0..16, 8, |start, end| if falls_back() { Ok(()) } else { fails(start, end) }).unwrap();
    shows(&expect![[r#"
        embed: 16 items in 4 attempts, 2 out of memory
          started  at 8, nothing was remembered
          tried    8 -> 4 -> in fallback 8 worked 2 times
          lost     at least TIME in attempts that failed
          fallback when nothing smaller was left
          next     starts at 8 again, because nothing is learned in fallback
    "#]]);
}

#[test]
fn an_item_that_fits_nowhere_and_is_reported() {
    let cache = GlobalCache::new();
    let with = execute::with::<GlobalCache>().cache(&cache).name("embed").by_cost(|text| TOKENS[text]);
    with.left_out(|_| ()).range(0..12, 128, embed).unwrap();
    shows(&expect![[r#"
        embed: 11 of 12 items in 8 attempts, 2 out of memory
          started  at cost 128, nothing was remembered
          tried    60 worked once, 500 -> item 2 left out, 120 -> up to 60 worked 5 times
          learned  60 works, 120 does not; 60 is at least 50 % of the limit
          lost     at least TIME in attempts that failed
          left out item 2, which does not fit by itself
          next     starts from cost 60, remembered in GlobalCache
    "#]]);
}

/// The item has the same weight as the others.
#[test]
fn an_item_that_has_to_be_looked_for() {
    let cache = GlobalCache::new();
    let with = execute::with::<GlobalCache>().cache(&cache).name("embed").by_cost(|_| 10).left_out(|_| ());
    with.range(0..64, 80, |start, end| if (start..end).contains(&13) { fails(start, end) } else { Ok(()) })
        .unwrap();
    shows(&expect![[r#"
        embed: 63 of 64 items in 14 attempts, 4 out of memory
          started  at cost 80, nothing was remembered
          tried    80 worked once, 80 -> 40 worked once, 40 -> 20 -> 10 worked once, 10 -> item 13 left out, up to 80 worked 7 times
          lost     at least TIME in attempts that failed
          left out item 13, which does not fit by itself
          next     starts at cost 80 again
    "#]]);
}

#[test]
fn an_item_that_fits_nowhere_and_fails_the_call() {
    let cache = GlobalCache::new();
    let with = execute::with::<GlobalCache>().cache(&cache).name("embed").by_cost(|text| TOKENS[text]);
    with.range(0..12, 60, embed).unwrap_err();
    shows(&expect![[r#"
        embed: 11 of 12 items in 7 attempts, 1 out of memory
          started  at cost 60, nothing was remembered
          tried    60 worked once, 500 -> item 2 left out, up to 60 worked 5 times
          why      a single item does not fit by itself
          lost     the time of 1 attempt, not measured without an observer
          left out item 2, which does not fit by itself
          next     starts at cost 60 again
    "#]]);
}

/// An injected failure is no evidence for the limit, and the next call starts at the same size as this one.
#[test]
fn failures_that_were_injected() {
    let _injection = inject::above(4);
    let cache = GlobalCache::new();
    execute::with::<NoCache>().cache(&cache).name("work").range(0..16, 16, |_, _| ());
    shows(&expect![[r#"
        work: 16 items in 6 attempts, 2 out of memory
          started  at 16, nothing was remembered
          tried    16 -> 8 -> 4 worked 4 times
          lost     at least TIME in attempts that failed
          next     starts at 16 again, because failures were injected and nothing is remembered
    "#]]);
}
