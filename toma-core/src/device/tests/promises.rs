//! Bytes that are promised and not allocated.

use std::thread;

use super::*;
use crate::memory::{MemorySource, Reading};

#[derive(Debug)]
struct Pool(&'static str);

impl MemorySource for Pool {
    fn name(&self) -> &str {
        self.0
    }

    fn read(&self) -> std::io::Result<Reading> {
        Ok(Reading::new(1000, 1000))
    }
}

#[test]
fn promises_add_up_and_are_lowered() {
    let (pool, other) = (Pool("promises that add up"), Pool("promises elsewhere"));
    let mut one = promise(&pool, 300);
    let mut two = promise(&pool, 0);
    assert_eq!((two.set(500), promised_bytes(&pool), promised_bytes(&other)), (300, 800, 0));
    assert_eq!((one.set(100), one.bytes(), promised_bytes(&pool)), (500, 100, 600));
    assert_eq!(unpromised(&pool, Reading::new(500, 1000)).free_bytes, 0);
    drop(one);
    assert_eq!(promised_bytes(&pool), 500);
    assert_eq!((two.set(u64::MAX), two.set(0), promised_bytes(&pool)), (0, 0, 0));
}

#[test]
fn what_is_promised_is_not_reserved() {
    let pool = Pool("promises and reservations");
    let mut promised = promise(&pool, 700);
    let refused = try_reserve(&pool, 400).unwrap_err();
    assert!(!refused.is_too_large());
    let kept = try_reserve(&pool, 300).unwrap();
    promised.set(0);
    assert!(try_reserve(&pool, 400).is_ok());
    drop(kept);
}

#[test]
fn of_two_that_promise_at_once_one_sees_the_other() {
    let pool = Pool("promises at once");
    for _ in 0..200 {
        let mut promises = [promise(&pool, 0), promise(&pool, 0)];
        let [one, two] = &mut promises;
        let seen = thread::scope(|scope| {
            let threads = [one, two].map(|promise| scope.spawn(|| promise.set(600)));
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(seen.contains(&600), "{seen:?}");
    }
    assert_eq!(promised_bytes(&pool), 0);
}
