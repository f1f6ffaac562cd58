//! A retry does not block the executor: other tasks of the thread run before it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use toma::classify::OutOfMemory;
use toma::{NoCache, execute};

fn one_thread() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

/// Another task of the same thread, and the number of times it ran.
#[derive(Default)]
struct Neighbor {
    turns: AtomicUsize,
    done: AtomicBool,
}

impl Neighbor {
    async fn run(self: Arc<Self>) {
        while !self.done.load(Relaxed) {
            self.turns.fetch_add(1, Relaxed);
            yield_now().await;
        }
    }
}

/// Number of turns that the neighbor had had when each attempt began.
type Seen = Mutex<Vec<usize>>;

/// A function that fails without ever being pending.
#[toma::batch(initial = 16, cache = NoCache)]
async fn fails_at_once(size: usize, neighbor: &Neighbor, seen: &Seen) -> Result<usize, OutOfMemory> {
    seen.lock().unwrap().push(neighbor.turns.load(Relaxed));
    if size > 1 { Err(OutOfMemory::new(None)) } else { Ok(size) }
}

#[toma::range(initial = 16, cache = NoCache)]
async fn panics_at_once(start: usize, end: usize, neighbor: &Neighbor, seen: &Seen) {
    seen.lock().unwrap().push(neighbor.turns.load(Relaxed));
    assert!(end - start < 2, "{}", crate::asynchronous::OUT_OF_MEMORY);
}

/// A function that is pending three times in each attempt.
#[toma::chunked(initial = 16, cache = NoCache)]
async fn fails_late(
    data: &mut [u8],
    _start: usize,
    _end: usize,
    neighbor: &Neighbor,
    seen: &Seen,
) -> Result<(), OutOfMemory> {
    seen.lock().unwrap().push(neighbor.turns.load(Relaxed));
    for value in 1..4 {
        data.fill(value);
        yield_now().await;
    }
    if data.len() > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

/// Runs the task and its neighbor on one thread.
fn beside_a_neighbor<F: Future>(task: impl FnOnce(Arc<Neighbor>, Arc<Seen>) -> F) -> Vec<usize> {
    let (neighbor, seen) = <(Arc<Neighbor>, Arc<Seen>)>::default();
    one_thread().block_on(async {
        let running = tokio::spawn(Arc::clone(&neighbor).run());
        task(Arc::clone(&neighbor), Arc::clone(&seen)).await;
        neighbor.done.store(true, Relaxed);
        running.await.unwrap();
    });
    seen.lock().unwrap().clone()
}

/// Returns true if the neighbor had at least `turns` turns between each attempt and the next.
fn has_turns(seen: &[usize], turns: usize) -> bool {
    seen.windows(2).all(|pair| pair[1] - pair[0] >= turns)
}

#[test]
fn others_run_before_each_retry() {
    let seen = beside_a_neighbor(|neighbor, seen| async move { fails_at_once(&neighbor, &seen).await });
    assert_eq!(seen.len(), 5);
    assert!(has_turns(&seen, 1), "{seen:?}");
}

#[test]
fn others_run_before_a_retry_after_a_panic() {
    let seen =
        beside_a_neighbor(|neighbor, seen| async move { panics_at_once(0, 1, &neighbor, &seen).await });
    assert_eq!(seen.len(), 1);
    let seen =
        beside_a_neighbor(|neighbor, seen| async move { panics_at_once(0, 16, &neighbor, &seen).await });
    assert_eq!(seen.len(), 4 + 16);
    assert!(has_turns(&seen[..5], 1), "{seen:?}");
}

#[test]
fn others_run_while_an_attempt_is_pending() {
    let seen =
        beside_a_neighbor(|neighbor, seen| async move { fails_late(&mut [0; 16], &neighbor, &seen).await });
    assert_eq!(seen.len(), 4 + 16);
    assert!(has_turns(&seen, 3), "{seen:?}");
}

#[test]
fn others_run_before_each_retry_of_a_stream() {
    let seen = beside_a_neighbor(|neighbor, seen| async move {
        let mut rows = execute::with::<NoCache>().stream(0..8, 8, async |start, end| {
            seen.lock().unwrap().push(neighbor.turns.load(Relaxed));
            if end - start > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        });
        assert_eq!(rows.next().await, Some(Ok(())));
    });
    assert_eq!(seen.len(), 4);
    assert!(has_turns(&seen, 1), "{seen:?}");
}

/// Memory that another task holds until it runs next.
#[toma::batch(initial = 16, cache = NoCache)]
async fn needs_what_another_holds(size: usize, held: &AtomicUsize) -> Result<usize, OutOfMemory> {
    if held.load(Relaxed) > 0 { Err(OutOfMemory::new(None)) } else { Ok(size) }
}

#[test]
fn another_task_may_free_the_memory() {
    one_thread().block_on(async {
        let held = Arc::new(AtomicUsize::new(1));
        let holds = Arc::clone(&held);
        tokio::spawn(async move { holds.store(0, Relaxed) });
        assert_eq!(needs_what_another_holds(&held).await, Ok(8), "one retry, no more");
    });
}
