//! Bytes that are kept, and waits for them.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::memory::{MemorySource, Reading};
use crate::nesting::{Inside, Nesting};

/// Has 1000 bytes, and so many of them free.
#[derive(Debug)]
struct Pool {
    name: &'static str,
    free: AtomicU64,
}

impl Pool {
    fn new(name: &'static str) -> Self {
        Self { name, free: AtomicU64::new(1000) }
    }

    fn is_empty(&self) -> bool {
        is_empty(&Device::of(self))
    }
}

impl MemorySource for Pool {
    fn name(&self) -> &str {
        self.name
    }

    fn read(&self) -> std::io::Result<Reading> {
        Ok(Reading::new(self.free.load(Relaxed), 1000))
    }
}

#[test]
fn waits_go_in_order_and_end_when_bytes_come_back() {
    let pool = Pool::new("reservations in order");
    let all = try_reserve(&pool, 1000).unwrap();
    let mut large = Task::waiting(reserve_pinned(&pool, 600));
    let mut small = Task::waiting(reserve_pinned(&pool, 500));
    drop(all);
    assert!(small.poll().is_none(), "it came later");
    let large = large.poll_woken().unwrap().unwrap();
    assert!(small.poll().is_none(), "the two are too much");
    drop(large);
    drop(small.poll_woken().unwrap().unwrap());
    assert!(pool.is_empty());
}

#[test]
fn a_wait_that_is_dropped_lets_the_next_one_in() {
    let pool = Pool::new("reservations dropped");
    let most = try_reserve(&pool, 900).unwrap();
    let large = Task::waiting(reserve_pinned(&pool, 600));
    let mut small = Task::waiting(reserve_pinned(&pool, 100));
    drop(large);
    drop(small.poll_woken().unwrap().unwrap());
    drop(most);
    assert!(pool.is_empty());
}

#[test]
fn a_wait_past_its_bound_is_skipped_though_it_is_never_polled() {
    let pool = Pool::new("reservations skipped");
    let most = try_reserve(&pool, 900).unwrap();
    let late = Box::pin(reserve_async(&pool, 600, Duration::from_millis(100)));
    let mut late = Task::waiting(late);
    drop(reserve(&pool, 100, AGES).unwrap());
    assert!(late.poll().unwrap().is_err());
    drop(most);
    assert!(pool.is_empty());
}

#[test]
fn bytes_that_become_free_without_a_word_are_seen() {
    let pool = Pool::new("reservations without a word");
    pool.free.store(0, Relaxed);
    thread::scope(|scope| {
        let waits = scope.spawn(|| reserve(&pool, 600, AGES).map(drop));
        until(|| !is_empty(&Device::of(&pool)));
        pool.free.store(1000, Relaxed);
        waits.join().unwrap().unwrap();
    });
    assert!(pool.is_empty());
}

#[test]
fn what_holds_a_turn_does_not_wait_for_bytes() {
    let (pool, elsewhere) = (Pool::new("reservations inside"), device());
    let all = try_reserve(&pool, 1000).unwrap();
    let turn = elsewhere.try_shared().unwrap();
    let enclosing = enclosed(Enclosing::default(), &turn, false);
    let inside = Inside::of(Some(Nesting { enclosing, ..Nesting::now() }));
    assert!(reserve(&pool, 1, Duration::MAX).is_err());
    assert!(Task::new(reserve_pinned(&pool, 1)).poll().unwrap().is_err());
    drop(all);
    drop(reserve(&pool, 1000, Duration::MAX).unwrap());
    drop(inside);
    assert!(pool.is_empty());
}

fn reserve_pinned(
    pool: &Pool,
    bytes: u64,
) -> Pin<Box<impl Future<Output = Result<Reservation, NotReserved>>>> {
    Box::pin(reserve_async(pool, bytes, AGES))
}
