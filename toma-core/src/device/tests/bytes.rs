//! Bytes that are reserved or promised, and waits for them.

use super::ledger::{Ledger, Wish};
use super::sleepers::SleeperId;
use super::*;

#[test]
fn the_ledger_keeps_no_more_than_was_free_at_first_and_lets_none_overtake() {
    let begin = Instant::now();
    let at = |tick| begin + Duration::from_millis(tick);
    let mut ledger = Ledger::new(1);
    let ask = |ledger: &mut Ledger, key, bytes, free, tick| {
        let until = Some(at(100 + key));
        let wish = Wish { key: SleeperId(key), bytes, promised: 10, until };
        let (answer, woken) = ledger.ask(wish, Some(Reading::new(free, 100)), at(tick));
        (answer.map_err(|refused| (refused.ahead, refused.look_at)).err(), woken)
    };
    assert_eq!(ask(&mut ledger, 1, 40, 50, 0), (None, vec![]));
    assert_eq!(ask(&mut ledger, 2, 5, 90, 0), (Some((0, Some(at(10)))), vec![]), "50 were free");
    assert_eq!(ask(&mut ledger, 3, 0, 90, 0), (Some((1, Some(at(102)))), vec![]), "one is before it");
    assert_eq!(ask(&mut ledger, 4, 0, 90, 0).0, Some((2, Some(at(102)))));
    assert_eq!(ledger.give_back(30, 2), None, "of another process");
    assert_eq!(ledger.give_back(30, 1), Some(SleeperId(2)));
    assert_eq!(ask(&mut ledger, 2, 5, 14, 0).0, Some((0, Some(at(10)))), "15 are not free");
    assert_eq!(ask(&mut ledger, 2, 5, 15, 0), (None, vec![SleeperId(3)]));
    assert_eq!(ledger.withdraw(SleeperId(4)), Some(SleeperId(3)));
    assert_eq!(ask(&mut ledger, 5, 26, 90, 103), (Some((0, Some(at(105)))), vec![SleeperId(3)]));
    assert_eq!(ask(&mut ledger, 5, 25, 90, 104), (None, vec![]), "to the last of 50");
    assert_eq!((ledger.give_back(40, 1), ledger.is_empty()), (None, true));
}

#[test]
fn waits_go_in_order_and_end_when_bytes_come_back() {
    let pool = Pool::new("reservations in order");
    let most = try_reserve(&pool, 900).unwrap();
    let dropped = waiting(&pool, 600, AGES);
    let [mut large, mut small, mut last] = [600, 300, 200].map(|bytes| waiting(&pool, bytes, AGES));
    let refused = try_reserve(&pool, 100).unwrap_err().to_string();
    let reason = "others have reserved 900 of the 1000 bytes that were free before, 4 waiting before it";
    assert!(refused.ends_with(reason), "{refused}");
    drop(most);
    assert!(large.poll_woken().is_none() && small.poll().is_none(), "they came later");
    drop(dropped);
    let large = large.poll_woken().unwrap().unwrap();
    let small = small.poll_woken().unwrap().unwrap();
    assert!(last.poll_woken().is_none(), "all three are too much");
    drop(large);
    drop((small, last.poll_woken().unwrap().unwrap()));
    assert!(is_empty(&Device::of(&pool)));
}

#[test]
fn a_wait_past_its_bound_is_skipped_and_bytes_that_become_free_without_a_word_are_seen() {
    let pool = Pool::new("reservations without a word");
    pool.free.store(0, Relaxed);
    let mut late = waiting(&pool, 600, Duration::from_millis(200));
    thread::scope(|scope| {
        let waits = scope.spawn(|| reserve(&pool, 700, AGES).map(drop));
        until(|| late.is_woken());
        pool.free.store(1000, Relaxed);
        waits.join().unwrap().unwrap();
    });
    drop(late.poll());
    assert!(is_empty(&Device::of(&pool)));
}

#[test]
fn promises_add_up_and_are_lowered() {
    let (pool, other) = (Pool::new("promises that add up"), Pool::new("promises elsewhere"));
    let mut one = promise(&pool, 300);
    let mut two = promise(&pool, 0);
    assert_eq!((two.set(500), promised_bytes(&pool), promised_bytes(&other)), (300, 800, 0));
    assert!(!try_reserve(&pool, 201).unwrap_err().is_too_large());
    assert_eq!((one.set(100), promised_bytes(&pool)), (500, 600));
    assert!(try_reserve(&pool, 201).is_ok());
    assert_eq!(unpromised(&pool, Reading::new(500, 1000)).free_bytes, 0);
    drop(one);
    assert_eq!(promised_bytes(&pool), 500);
    assert_eq!((two.set(u64::MAX), two.set(0), promised_bytes(&pool)), (0, 0, 0));
}

#[test]
fn of_two_that_promise_at_once_one_sees_the_other() {
    let pool = Pool::new("promises at once");
    for _ in 0..200 {
        let mut promises = [promise(&pool, 0), promise(&pool, 0)];
        let seen = thread::scope(|scope| {
            let threads = promises.each_mut().map(|promise| scope.spawn(|| promise.set(600)));
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(seen.contains(&600), "{seen:?}");
    }
    assert_eq!(promised_bytes(&pool), 0);
}
