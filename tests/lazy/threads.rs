//! Two threads in one place, and iterators that move.

use std::sync::Barrier;
use std::thread;

use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache, execute};

#[test]
fn two_threads_never_see_each_others_step() {
    let (cache, barrier) = (GlobalCache::new(), Barrier::new(2));
    let work = |limit: usize| {
        let form = execute::with::<NoCache>().cache(&cache).name("threads");
        let mut rows = form.iter(0..64, 64, |start, end| {
            if end - start > limit { Err(OutOfMemory::new(None)) } else { Ok(end - start) }
        });
        let mut sizes = Vec::new();
        barrier.wait();
        for _ in 0..4 {
            sizes.push(rows.next().unwrap().unwrap());
            barrier.wait();
        }
        sizes
    };
    thread::scope(|scope| {
        let small = scope.spawn(|| work(2));
        assert_eq!(work(16), [16; 4]);
        assert_eq!(small.join().unwrap(), [2; 4]);
    });
    assert_eq!(cache.entries().len(), 1);
}

#[test]
fn an_iterator_may_go_on_in_another_thread() {
    let cache = GlobalCache::new();
    let form = execute::with::<NoCache>().cache(&cache).name("threads");
    let mut rows =
        form.iter(
            0..8,
            8,
            |start, end| {
                if end - start > 2 { Err(OutOfMemory::new(None)) } else { Ok(start..end) }
            },
        );
    assert_eq!(rows.next(), Some(Ok(0..2)));
    thread::scope(|scope| {
        let rest = scope.spawn(|| rows.map(Result::unwrap).collect::<Vec<_>>());
        assert_eq!(rest.join().unwrap(), [2..4, 4..6, 6..8]);
    });
    assert_eq!(cache.entries()[0].remembered.settled, 2);
}
