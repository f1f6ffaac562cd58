//! Many tasks on many threads.

use tokio::runtime::Builder;
use tokio::task::yield_now;
use toma::NoCache;
use toma::classify::OutOfMemory;

use crate::kit::fits;

const ITEMS: usize = 200;

/// Each task has its own limit; attempts move from thread to thread.
#[toma::chunked(initial = 64, cache = NoCache)]
async fn fill(data: &mut [usize], start: usize, _end: usize, limit: usize) -> Result<(), OutOfMemory> {
    yield_now().await;
    fits(data.len(), limit)?;
    for (i, value) in data.iter_mut().enumerate() {
        *value += start + i;
        yield_now().await;
    }
    Ok(())
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
