//! Random programs of nested loops, in tasks and on threads, with failures of all kinds: the witness is notified of
//! each attempt from its beginning to its end, and nothing else changes.

use std::error::Error;
use std::future::Future;
use std::io;
use std::panic::{self, AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Mutex, Once};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use toma::classify::{Class, OutOfMemory};
use toma::device::{Ladder, falls_back};
use toma::memory::{MemorySource, Reading};
use toma::observe::witness::listen;
use toma::observe::{Event, EventKind, Observer};
use toma::policy::Policy;
use toma::{Bisect, GlobalCache, Halve, NoCache, execute, report};

use crate::executor::{pause, poll};
use crate::scripted::{Session, asked, depth, mistake, thread_ends};

type Fate = Result<(), Box<dyn Error + Send + Sync>>;

const PROGRAMS: u64 = 1500;

/// Random choices and records of one thread of a program.
struct World {
    rng: Mutex<Rng>,
    seen: Mutex<Vec<String>>,
    cache: GlobalCache,
    /// True if every call is observed.
    observed: bool,
    witnessed: bool,
    /// Number of attempts that have run out of memory, counted if all calls are observed.
    out_of_memory: Mutex<usize>,
}

impl World {
    fn new(seed: u64, observed: bool, witnessed: bool) -> Self {
        Self {
            rng: Mutex::new(Rng::with_seed(seed)),
            seen: Mutex::default(),
            cache: GlobalCache::new(),
            observed,
            witnessed,
            out_of_memory: Mutex::default(),
        }
    }

    fn draw(&self, below: usize) -> usize {
        self.rng.lock().unwrap().usize(0..below)
    }

    fn one_in(&self, many: usize) -> bool {
        self.draw(many) == 0
    }

    fn see(&self, line: String) {
        self.seen.lock().unwrap().push(line);
    }

    /// Draws the outcome of a body, apart from the loops inside it.
    fn fate(&self, size: usize, limit: usize) -> Fate {
        let hiccup = self.one_in(12);
        if size > limit && !falls_back() || hiccup {
            return match self.draw(4) {
                0 => panic!("CUDA out of memory. Tried to allocate 2.00 GiB"),
                1 => Err(io::Error::from(io::ErrorKind::OutOfMemory).into()),
                _ => Err(OutOfMemory::new(Some(1000)).into()),
            };
        }
        match self.draw(40) {
            0 => panic!("wrong shape"),
            1 => Err("wrong size".into()),
            2 => Err("CUBLAS_STATUS_INTERNAL_ERROR".into()),
            _ => Ok(()),
        }
    }

    /// Records the report of the last call.
    fn see_report(&self) {
        let Some(mut report) = report::last() else { return };
        let is_timed = report.time.take().is_some();
        if report.filled.take().is_some() && !self.witnessed {
            mistake("a report knows what filled the memory".to_owned());
        }
        report.time_lost = Duration::ZERO;
        report.tried.iter_mut().for_each(|tried| tried.time = None);
        self.see(format!("{is_timed} {report:?}"));
    }
}

impl Observer for World {
    fn observe(&self, event: &Event<'_>) {
        let line = match event.kind {
            EventKind::Succeeded { start, end, .. } => format!("succeeded {start}..{end}"),
            EventKind::Failed { start, end, class, filled, .. } => {
                let is_known = self.witnessed && class == Class::OutOfMemory;
                let answer = is_known.then(|| format!("a net\nanswer {}", asked()));
                if filled.map(str::to_owned) != answer {
                    mistake(format!("{filled:?} instead of {answer:?}"));
                }
                *self.out_of_memory.lock().unwrap() += usize::from(class == Class::OutOfMemory);
                format!("failed {start}..{end}: {class:?}")
            }
            EventKind::Settled { size, .. } => format!("settled {size}"),
            kind => format!("{kind:?}"),
        };
        self.see(line);
    }
}

/// A memory that is always half full, and that no other thread uses.
#[derive(Debug)]
struct Memory;

impl MemorySource for Memory {
    fn name(&self) -> &'static str {
        thread_local!(static NAME: &'static str = format!("witnessed {:?}", thread::current().id()).leak());
        NAME.with(|name| *name)
    }

    fn read(&self) -> io::Result<Reading> {
        Ok(Reading::new(512, 1024))
    }
}

/// Runs the body of an attempt, which may run further loops inside.
fn body(world: &World, loops: usize, (start, end): (usize, usize), limit: usize) -> Fate {
    world.see(format!("body {start}..{end}, in fallback: {}", falls_back()));
    if world.witnessed && depth() == 0 {
        mistake("a body runs outside of its attempt".to_owned());
    }
    match world.draw(6) {
        0 if loops > 0 => elsewhere(world, loops - 1)?,
        1 if loops > 0 => call(world, loops - 1)?,
        2 if loops > 0 => drop(call(world, loops - 1)),
        _ => {}
    }
    world.fate(end - start, limit)
}

/// Runs a call on another thread and joins it.
fn elsewhere(world: &World, loops: usize) -> Fate {
    let seed = world.rng.lock().unwrap().u64(..);
    let inner = World::new(seed, world.observed, world.witnessed);
    let work = move || {
        let ended = catch_unwind(AssertUnwindSafe(|| call(&inner, loops)));
        thread_ends();
        check_count(&inner);
        (ended, inner.seen.into_inner().unwrap())
    };
    let (ended, lines) = thread::scope(|scope| scope.spawn(work).join().expect("its panics are caught"));
    world.seen.lock().unwrap().extend(lines);
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Asserts that the witness was asked once about each failure.
fn check_count(world: &World) {
    let (asked, failed) = (asked(), *world.out_of_memory.lock().unwrap());
    if world.observed && world.witnessed && asked != failed {
        mistake(format!("asked {asked} times, {failed} failures"));
    }
}

fn call(world: &World, loops: usize) -> Fate {
    let (items, initial) = (world.draw(12) + 1, world.draw(12) + 1);
    let limit = world.draw(8) + 1;
    let form = world.draw(7);
    if form == 0 {
        return task(world, loops);
    }
    let bisect = Bisect::default();
    let policy: &dyn Policy = if world.one_in(2) { &Halve } else { &bisect };
    let mut with = execute::with::<NoCache>().policy(policy);
    if world.one_in(2) {
        with = with.cache(&world.cache).name(["one", "other"][world.draw(2)]);
    }
    if world.observed || world.one_in(2) {
        with = with.observer(world);
    }
    if world.one_in(3) {
        with = with.device(&Memory);
    }
    if world.one_in(4) {
        with = with.ladder(Ladder::default().fallback(true));
    }
    if world.one_in(8) {
        with = with.max_attempts(world.draw(3) + 1);
    }
    if world.one_in(12) {
        with = with.deadline(Duration::ZERO);
    }
    let run = |start, end| body(world, loops, (start, end), limit);
    let ended = catch_unwind(AssertUnwindSafe(|| match form {
        1 => with.batch(initial, |size| run(0, size)),
        2 => with.map(0..items, initial, run).map(drop),
        3 => {
            let taken = world.draw(6) + 1;
            with.iter(0..items, initial, run).take(taken).collect()
        }
        4 => with.by_cost(|item| item + 1).left_out(|_| ()).range(0..items, initial, run),
        5 => with.chunked(&[0; 12][..items], initial, |_, start, end| run(start, end)),
        _ => with.range(0..items, initial, run),
    }));
    world.see_report();
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

#[toma::range(initial = 8, cache = &world.cache, name = "task", observer = *world)]
async fn observed(start: usize, end: usize, world: &World, loops: usize) -> Fate {
    piece(world, loops, (start, end)).await
}

#[toma::range(initial = 8, cache = &world.cache, name = "task")]
async fn unobserved(start: usize, end: usize, world: &World, loops: usize) -> Fate {
    piece(world, loops, (start, end)).await
}

async fn piece(world: &World, loops: usize, piece: (usize, usize)) -> Fate {
    if world.one_in(2) {
        pause().await;
    }
    if loops > 0 && world.one_in(3) {
        awaited(world, loops - 1, 4).await?;
    }
    let done = body(world, loops, piece, 3);
    if world.one_in(2) {
        pause().await;
    }
    done
}

fn awaited(world: &World, loops: usize, items: usize) -> Pin<Box<dyn Future<Output = Fate> + '_>> {
    if world.observed || world.one_in(2) {
        Box::pin(observed(0, items, world, loops))
    } else {
        Box::pin(unobserved(0, items, world, loops))
    }
}

/// Polls a task to its end, or drops it before.
fn task(world: &World, loops: usize) -> Fate {
    let most = if world.one_in(3) { world.draw(8) } else { usize::MAX };
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut task = awaited(world, loops, 10);
        let mut polls = std::iter::repeat_with(|| poll(task.as_mut())).take(most);
        polls.find(Poll::is_ready)
    }));
    world.see_report();
    match ended {
        Ok(Some(Poll::Ready(fate))) => fate,
        Ok(_) => Ok(()),
        Err(panic) => resume_unwind(panic),
    }
}

/// Returns the records of a program, with the witness or without.
fn run(seed: u64, witnessed: bool) -> Vec<String> {
    let world = World::new(seed, seed.is_multiple_of(2), witnessed);
    // Replaces the report of the previous program.
    execute::with::<NoCache>().batch(1, |_| ());
    listen(witnessed);
    let ended = catch_unwind(AssertUnwindSafe(|| call(&world, 3)));
    listen(false);
    check_count(&world);
    let ended = ended.map(|fate| fate.map_err(|error| error.to_string())).map_err(drop);
    world.see(format!("{ended:?}"));
    world.seen.into_inner().unwrap()
}

/// Silences the panics that programs raise on purpose.
fn be_quiet() {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let words = info.payload().downcast_ref::<&str>().copied().unwrap_or_default();
            if words != "wrong shape" && !words.starts_with("CUDA out of memory") {
                previous(info);
            }
        }));
    });
}

#[test]
fn programs_are_the_same_with_a_witness_that_is_notified_of_all() {
    be_quiet();
    let (mut attempts, mut failures) = (0, 0);
    for seed in 0..PROGRAMS {
        let session = Session::silent();
        let expected = run(seed, false);
        assert_eq!(session.take(), "", "seed {seed}");
        assert_eq!(run(seed, true), expected, "seed {seed}");
        let asked = asked();
        let received = session.take();
        attempts += received.lines().filter(|line| line.starts_with("ended")).count();
        failures += asked;
    }
    assert!(attempts > 10_000 && failures > 3_000, "{attempts} attempts, {failures} failures");
}
