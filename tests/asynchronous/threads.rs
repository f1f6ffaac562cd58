//! Many tasks on many threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::runtime::Builder;
use tokio::task::yield_now;
use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache};

const ITEMS: usize = 200;

/// Each task has its own limit; attempts move from thread to thread.
#[toma::chunked(initial = 64, cache = NoCache)]
async fn fill(data: &mut [usize], start: usize, _end: usize, limit: usize) -> Result<(), OutOfMemory> {
    yield_now().await;
    if data.len() > limit {
        return Err(OutOfMemory::new(None));
    }
    for (i, value) in data.iter_mut().enumerate() {
        *value += start + i;
        yield_now().await;
    }
    Ok(())
}

/// All tasks share a budget, which they take and give back.
#[toma::batch(initial = 64, cache = GlobalCache)]
async fn share(size: usize, free: &AtomicUsize) -> Result<usize, OutOfMemory> {
    let taken = free.fetch_update(Relaxed, Relaxed, |free| free.checked_sub(size));
    taken.map_err(|_| OutOfMemory::new(None))?;
    yield_now().await;
    free.fetch_add(size, Relaxed);
    Ok(size)
}

fn threads() -> tokio::runtime::Runtime {
    Builder::new_multi_thread().worker_threads(4).build().unwrap()
}

#[test]
fn tasks_never_see_each_others_step() {
    threads().block_on(async {
        let fill = |limit| async move {
            let mut data = [0; ITEMS];
            fill(&mut data, limit).await.map(|()| data)
        };
        let tasks: Vec<_> = (1..=32).map(|limit| tokio::spawn(fill(limit))).collect();
        for task in tasks {
            let data = task.await.unwrap().unwrap();
            assert!(data.into_iter().eq(0..ITEMS), "every item once");
        }
    });
}

async fn compete(free: Arc<AtomicUsize>) {
    for _ in 0..10 {
        // Memory may be short even for one item: then the error says so.
        let size = share(&free).await.unwrap_or(1);
        assert!((1..=64).contains(&size) && size.is_power_of_two());
    }
}

#[test]
fn tasks_that_compete_for_memory_all_end() {
    let free = Arc::new(AtomicUsize::new(96));
    threads().block_on(async {
        let tasks: Vec<_> = (0..32).map(|_| tokio::spawn(compete(Arc::clone(&free)))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(free.load(Relaxed), 96);
}
