//! Items that fail alone and are done in another memory, while the others go on where they were.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use toma::classify::OutOfMemory;
use toma::device::{Ladder, falls_back};
use toma::testing::{FakeDevice, StoppedClock};
use toma::{Adaptive, Bisect, GlobalCache, Halve, NoCache, Policy, execute, report};

use crate::executor::{block_on, pause};
use crate::kit::{Watching, must_end};

fn ladder() -> Ladder<'static> {
    Ladder::default().fallback(true)
}

/// On the device there is room for 16, elsewhere for 1000.
const COSTS: [u64; 12] = [4, 4, 4, 4, 90, 4, 4, 4, 4, 2000, 4, 4];

fn body(start: usize, end: usize) -> Result<Vec<(usize, bool)>, OutOfMemory> {
    let room = if falls_back() { 1000 } else { 16 };
    let cost: u64 = COSTS[start..end].iter().sum();
    if cost > room {
        Err(OutOfMemory::new(Some(cost)))
    } else {
        Ok((start..end).map(|item| (item, falls_back())).collect())
    }
}

/// Each item and whether it was done elsewhere, but for the one that fits nowhere.
fn done() -> Vec<(usize, bool)> {
    (0..12).filter(|&item| item != 9).map(|item| (item, item == 4)).collect()
}

#[test]
fn only_that_item_goes_to_another_memory_and_what_fails_there_is_left_out() {
    let mut left_out = Vec::new();
    let with = execute::with::<NoCache>().ladder(ladder()).by_cost(|i| COSTS[i]);
    let with = with.left_out(|item| left_out.push((item.index, item.failure.requested_bytes)));
    let rows = with.map(0..12, 16, body).unwrap();
    assert_eq!(rows.concat(), done());
    assert_eq!(left_out, [(9, Some(2000))]);
    let report = report::last().unwrap();
    assert_eq!((report.left_out, report.fell_back), (vec![9], false));
    // Two pieces of four, one of two, 4 twice, 9 twice.
    assert_eq!((report.attempts, report.out_of_memory, report.done), (7, 3, 11));
}

#[test]
fn without_anybody_who_is_told_what_fails_there_goes_through_in_the_end() {
    let all = RefCell::new(Vec::new());
    let with = execute::with::<NoCache>().ladder(ladder()).by_cost(|i| COSTS[i]);
    let result =
        with.range(0..12, 16, |start, end| body(start, end).map(|items| all.borrow_mut().extend(items)));
    assert_eq!(result.unwrap_err().requested_bytes(), Some(2000));
    assert_eq!(all.take(), done());
}

/// What an attempt did is undone where it was done.
#[test]
fn it_is_undone_in_the_memory_in_which_it_has_failed() {
    let undone = RefCell::new(Vec::new());
    let form = || {
        let with = execute::with::<NoCache>().ladder(ladder());
        let with =
            with.before_retry(|failed: Range<usize>| undone.borrow_mut().push((failed.start, falls_back())));
        with.by_cost(|i| COSTS[i]).left_out(|_| assert!(!falls_back()))
    };
    let expected = [(4, false), (9, false), (9, true)];
    form().range(0..12, 16, |start, end| body(start, end).map(drop)).unwrap();
    assert_eq!(undone.take(), expected);
    let mut stream = form().stream(0..12, 16, async |start, end| body(start, end).map(drop));
    while let Some(row) = block_on(stream.next()) {
        row.unwrap();
    }
    assert_eq!(undone.take(), expected);
}

#[test]
fn in_an_iterator_and_in_a_stream() {
    let form = || execute::with::<NoCache>().ladder(ladder()).by_cost(|i| COSTS[i]).left_out(|_| ());
    let rows: Vec<_> = form().iter(0..12, 16, body).map(Result::unwrap).collect();
    assert_eq!(rows.concat(), done());
    let mut stream = form().stream(0..12, 16, async |start, end| {
        let before = falls_back();
        pause().await;
        assert_eq!(falls_back(), before);
        body(start, end)
    });
    let mut rows = Vec::new();
    while let Some(row) = block_on(stream.next()) {
        rows.extend(row.unwrap());
    }
    assert_eq!(rows, done());
}

#[test]
fn it_teaches_nothing() {
    let policies: [&dyn Policy; 3] = [&Halve, &Bisect::default(), &Adaptive::default()];
    for policy in policies {
        let settled = |fits_nowhere: Option<usize>| {
            let (cache, device) = (GlobalCache::new(), FakeDevice::new(2000));
            let with =
                execute::with::<NoCache>().cache(&cache).policy(policy).device(&device).ladder(ladder());
            let mut moved = Vec::new();
            with.by_cost(|_| 10)
                .range(0..2000, 5120, |start, end| {
                    let holds = fits_nowhere.filter(|item| (start..end).contains(item));
                    if falls_back() {
                        moved.push((start, end));
                        return Ok(());
                    }
                    device.alloc(if holds.is_some() { 1 << 40 } else { 10 * (end - start) as u64 }).map(drop)
                })
                .unwrap();
            let expected: Vec<_> = fits_nowhere.map(|item| (item, item + 1)).into_iter().collect();
            assert_eq!(moved, expected, "{policy:?}");
            cache.entries()[0].remembered.settled
        };
        let undisturbed = settled(None);
        for item in [0, 3, 100, 500, 901] {
            assert_eq!(settled(Some(item)), undisturbed, "{policy:?} with {item}");
        }
    }
}

/// Its seat is free while the item works elsewhere, so that whoever wants to be alone is so at once, and taken
/// again for the next piece.
#[test]
fn nobody_waits_meanwhile_and_others_do_so_afterwards() {
    must_end(|| {
        let device = FakeDevice::new(1000);
        let somebody_waits = || {
            let seen = Watching::default();
            let mut fails = true;
            let mut fail = |_| if std::mem::take(&mut fails) { device.alloc(1001).map(drop) } else { Ok(()) };
            let briefly = Ladder::default().wait(Duration::from_millis(1));
            let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(briefly);
            let wait = || {
                // No time passes, so that what waits in vain keeps no other one from it.
                let _clock = StoppedClock::new();
                with.batch(2, &mut fail).unwrap();
            };
            std::thread::scope(|scope| scope.spawn(wait).join().unwrap());
            seen.events().iter().any(|event| event.starts_with("waits") && !event.ends_with("others: 0"))
        };
        // Neither does anybody for attempts inside it.
        let inside =
            || execute::with::<NoCache>().device(&device).batch(1, |_| (falls_back(), somebody_waits()));
        let with = execute::with::<NoCache>().device(&device).ladder(ladder()).by_cost(|i| COSTS[i]);
        let waits = with.map(0..9, 16, |start, end| {
            body(start, end).map(|_| (start..end, falls_back(), somebody_waits(), inside()))
        });
        let expected = [
            (0..4, false, true, (false, true)),
            (4..5, true, false, (true, false)),
            (5..9, false, true, (false, true)),
        ];
        assert_eq!(waits.unwrap(), expected);
    });
}

#[test]
fn attempts_in_another_memory_count_as_well() {
    for (most, is_moved) in [(1, false), (2, true)] {
        let with = execute::with::<NoCache>().ladder(ladder()).max_attempts(most).by_cost(|i| COSTS[i]);
        with.left_out(|_| ()).map(0..9, 16, body).unwrap();
        let report = report::last().unwrap();
        assert_eq!(report.left_out == [4], !is_moved);
    }
}

/// At the floor the device has nothing more to give: that takes the whole call elsewhere, as ever.
#[test]
fn what_fails_at_the_floor_takes_the_others_along() {
    let mut seen = Vec::new();
    let with = execute::with::<NoCache>().ladder(ladder()).min(4).by_cost(|_| 4);
    with.range(0..6, 8, |start, end| {
        seen.push((end - start, falls_back()));
        if falls_back() { Ok(()) } else { Err(OutOfMemory::new(None)) }
    })
    .unwrap();
    assert_eq!(seen, [(2, false), (1, false), (2, true), (2, true), (2, true)]);
    assert!(report::last().unwrap().fell_back);
}
