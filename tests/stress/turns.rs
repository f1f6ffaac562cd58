//! Threads and tasks on a device that has room for one of them at a time: exclusive attempts run alone, and
//! no wait lasts its whole bound.

use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use tokio::runtime::Builder;
use tokio::task::yield_now;
use toma::NoCache;
use toma::device::Ladder;
use toma::execute;
use toma::observe::{Answer, Event, EventKind, Observer};
use toma::testing::{FakeDevice, FakeOutOfMemory};

use crate::printed;
use crate::world::lock;

/// Longer than any wait.
const LONG: Duration = Duration::from_secs(20);

const ACTORS: usize = 6;

/// A device, and the attempts whose body runs there.
#[derive(Debug)]
struct Room {
    device: FakeDevice,
    running: AtomicUsize,
    alone: AtomicUsize,
    shrinks: AtomicUsize,
    waits: AtomicUsize,
    nests: bool,
    mistakes: Mutex<Vec<String>>,
}

/// A call. While one inside it waits, it does not count as running.
#[derive(Debug)]
struct Turn<'a> {
    room: &'a Room,
    around: Option<&'a Turn<'a>>,
    /// What the last wait of the call came to.
    alone: AtomicBool,
}

impl Turn<'_> {
    fn begin(&self) {
        let (running, inside) = (self.room.running.fetch_add(1, SeqCst) + 1, self.depth());
        let outer_alone = self.around.is_some_and(|around| around.alone.load(SeqCst));
        if self.alone.load(SeqCst) {
            self.room.alone.fetch_add(1, SeqCst);
            self.room.check(running == 1 + inside, || format!("{running} run, and one is alone"));
        } else {
            let alone = self.room.alone.load(SeqCst);
            self.room
                .check(alone == usize::from(outer_alone), || format!("{alone} are alone, and one begins"));
        }
    }

    fn end(&self) {
        if self.alone.swap(false, SeqCst) {
            let running = self.room.running.load(SeqCst);
            self.room.check(running == 1 + self.depth(), || format!("{running} ran beside an exclusive one"));
            self.room.alone.fetch_sub(1, SeqCst);
        }
        self.room.running.fetch_sub(1, SeqCst);
    }

    fn depth(&self) -> usize {
        usize::from(self.around.is_some())
    }

    fn pause(&self) {
        self.room.alone.fetch_sub(usize::from(self.alone.load(SeqCst)), SeqCst);
        self.room.running.fetch_sub(1, SeqCst);
    }

    fn resume(&self) {
        self.room.alone.fetch_add(usize::from(self.alone.load(SeqCst)), SeqCst);
        self.room.running.fetch_add(1, SeqCst);
    }
}

impl Observer for Turn<'_> {
    fn observe(&self, event: &Event<'_>) {
        match event.kind {
            EventKind::Waits { .. } => {
                if let Some(around) = self.around {
                    around.pause();
                }
            }
            EventKind::Waited { elapsed, exclusive } => {
                if let Some(around) = self.around {
                    around.resume();
                }
                self.room.waits.fetch_add(1, Relaxed);
                self.alone.store(exclusive, SeqCst);
                self.room.check(elapsed < LONG, || "a wait in vain".to_owned());
            }
            EventKind::Answered { answer: Answer::Shrink(_), .. } => {
                self.room.shrinks.fetch_add(1, Relaxed);
            }
            _ => {}
        }
    }
}

/// An attempt's body, from its first line to its last.
struct Body<'a>(&'a Turn<'a>);

impl<'a> Body<'a> {
    fn new(turn: &'a Turn<'a>) -> Self {
        turn.begin();
        Self(turn)
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Room {
    fn check(&self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            lock(&self.mistakes).push(otherwise());
        }
    }

    /// Nothing has gone wrong so far.
    fn is_sound(&self) -> bool {
        lock(&self.mistakes).is_empty()
    }

    fn turn<'a>(&'a self, around: Option<&'a Turn<'a>>) -> Turn<'a> {
        Turn { room: self, around, alone: AtomicBool::new(false) }
    }

    fn call(&self, random: &mut Rng, around: Option<&Turn<'_>>) -> Result<(), FakeOutOfMemory> {
        let turn = self.turn(around);
        let ladder = patient();
        let form = execute::with::<NoCache>().device(&self.device).ladder(ladder).observer(&turn);
        // Flat, one alone has room. In loops, two have, but only one of the loops inside them.
        let size = if self.nests { 4 } else { 8 };
        form.range(0..4 * size, size, |start, end| {
            let _body = Body::new(&turn);
            let _held = self.device.alloc(10 * (end - start) as u64)?;
            if random.bool() {
                thread::yield_now();
            }
            if self.nests && around.is_none() && random.bool() {
                self.call(random, Some(&turn))?;
            }
            Ok(())
        })
    }

    async fn call_async(&self, random: &Mutex<Rng>) -> Result<(), FakeOutOfMemory> {
        let turn = self.turn(None);
        let ladder = patient();
        let form = execute::with::<NoCache>().device(&self.device).ladder(ladder).observer(&turn);
        let mut pieces = form.stream(0..32, if self.nests { 4 } else { 8 }, async |start, end| {
            let _body = Body::new(&turn);
            let _held = self.device.alloc(10 * (end - start) as u64)?;
            while lock(random).bool() {
                yield_now().await;
            }
            Ok::<_, FakeOutOfMemory>(())
        });
        while let Some(piece) = pieces.next().await {
            piece?;
        }
        Ok(())
    }
}

/// Without hooks, which are the whole process's: one that waits in a loop of its own holds up the
/// attempts around it, and those may not say so here.
fn patient() -> Ladder<'static> {
    Ladder::default().wait(LONG).hooks(false)
}

fn play(nests: bool, calls: usize) {
    printed::listen();
    let seed = crate::setting("TOMA_STRESS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut seeds = Rng::with_seed(seed);
    let room = Room {
        device: FakeDevice::new(100),
        running: AtomicUsize::new(0),
        alone: AtomicUsize::new(0),
        shrinks: AtomicUsize::new(0),
        waits: AtomicUsize::new(0),
        nests,
        mistakes: Mutex::default(),
    };
    thread::scope(|scope| {
        for actor in 0..ACTORS {
            let (room, mut random) = (&room, seeds.fork());
            scope.spawn(move || {
                if actor % 2 == 0 {
                    for _ in 0..calls {
                        if room.is_sound() {
                            drop(room.call(&mut random, None));
                        }
                    }
                } else {
                    let (runtime, random) =
                        (Builder::new_current_thread().build().unwrap(), Mutex::new(random));
                    let one = async || {
                        for _ in 0..calls {
                            if room.is_sound() {
                                drop(room.call_async(&random).await);
                            }
                        }
                    };
                    let mut tasks = [const { None }; 3].map(|_: Option<()>| Some(Box::pin(one())));
                    runtime.block_on(poll_fn(|context| {
                        for task in &mut tasks {
                            drop(task.take_if(|task| task.as_mut().poll(context).is_ready()));
                        }
                        if tasks.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
                    }));
                }
            });
        }
    });
    println!("seed {seed}, {} waits, {} shrinks", room.waits.load(Relaxed), room.shrinks.load(Relaxed));
    assert!(room.waits.load(Relaxed) > 0, "TOMA_STRESS_SEED={seed}: nothing has waited");
    let mistakes = lock(&room.mistakes);
    assert!(mistakes.is_empty(), "TOMA_STRESS_SEED={seed}: {}: {:?}", mistakes.len(), &mistakes[..1]);
    drop(mistakes);
    assert_eq!(
        (room.device.allocated_bytes(), room.running.load(SeqCst), room.alone.load(SeqCst)),
        (0, 0, 0)
    );
}

#[test]
fn stress_turns_of_threads_and_tasks() {
    play(false, 100);
}

#[test]
fn stress_turns_of_loops_in_loops() {
    play(true, 100);
}
