//! Fallback to another memory, and its effect on learned sizes. The fallback of every form is tested in
//! `tests/macros/options`, and the rules for when a call falls back in `tests/loops/rules`.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::task::Poll;

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::device::{Ladder, falls_back};
use toma::testing::FakeDevice;
use toma::{Adaptive, Bisect, GlobalCache, NoCache, execute, report};

use crate::device::kit::{Watching, is_free};
use crate::executor::{block_on, pause, poll};

fn ladder() -> Ladder<'static> {
    Ladder::default().fallback(true)
}

/// Sizes tried; true for an attempt in fallback.
type Tried = RefCell<Vec<(usize, bool)>>;

/// A body that fits nothing on the device, and 4 items in the other memory.
fn body(tried: &Tried, size: usize) -> Result<usize, OutOfMemory> {
    tried.borrow_mut().push((size, falls_back()));
    if falls_back() && size <= 4 { Ok(size) } else { Err(OutOfMemory::new(None)) }
}

/// Sizes of a range of 16 that starts at 8: down to the floor, then from the first size again in fallback, to the end.
fn ranged() -> Vec<(usize, bool)> {
    let device = [8, 4, 2, 1].map(|size| (size, false));
    let elsewhere = [8, 4, 4, 4, 4].map(|size| (size, true));
    [&device[..], &elsewhere].concat()
}

#[test]
fn a_stream_falls_back_and_other_tasks_do_not() {
    let tried = Tried::default();
    let mut rows = execute::with::<NoCache>().ladder(ladder()).stream(0..16, 8, async |start, end| {
        pause().await;
        body(&tried, end - start)
    });
    let mut sizes = Vec::new();
    loop {
        let polled = poll(pin!(rows.next()));
        assert!(!falls_back(), "between polls");
        match polled {
            Poll::Ready(Some(size)) => sizes.push(size.unwrap()),
            Poll::Ready(None) => break,
            Poll::Pending => {}
        }
    }
    assert_eq!(sizes, [4; 4]);
    assert_eq!(tried.take(), ranged());
}

#[test]
fn loops_inside_are_in_fallback_too_and_learn_nothing() {
    let (outside, inside) = (GlobalCache::new(), GlobalCache::new());
    let (sizes, device) = (RefCell::new(Vec::new()), FakeDevice::new(10));
    let with = execute::with::<NoCache>().cache(&outside).ladder(ladder()).device(&device);
    with.batch(2, |_| {
        let seen = Watching::default();
        let with = execute::with::<NoCache>().cache(&inside).device(&device).observer(&seen);
        let result = with.range(0..8, 8, |start, end| {
            sizes.borrow_mut().push((end - start, falls_back()));
            // The other memory has room for 4, the device for none.
            let limit = if falls_back() { 4 } else { 0 };
            if end - start > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
        });
        assert!(!seen.has_waited());
        result
    })
    .unwrap();
    let device = [8, 4, 2, 1, 8, 4, 2, 1].map(|size| (size, false));
    let elsewhere = [8, 4, 4].map(|size| (size, true));
    assert_eq!(sizes.take(), [&device[..], &elsewhere].concat());
    assert!(outside.entries().is_empty() && inside.entries().is_empty());
}

/// A call in fallback is not on the device any more, and neither are the loops inside.
#[test]
fn a_call_in_fallback_is_not_waited_for() {
    let (device, asked) = (FakeDevice::new(100), Cell::new(0));
    let is_free = || {
        asked.set(asked.get() + 1);
        is_free(&device)
    };
    execute::with::<NoCache>()
        .device(&device)
        .ladder(ladder())
        .batch(1, |_| {
            if falls_back() {
                assert!(is_free());
                execute::with::<NoCache>().device(&device).batch(1, |_| assert!(is_free()));
            }
            if falls_back() { Ok(()) } else { Err(OutOfMemory::new(None)) }
        })
        .unwrap();
    assert_eq!(asked.get(), 2);
}

/// Costs of items. The device has room for 16, the other memory for 1000.
const COSTS: [u64; 12] = [4, 4, 4, 4, 90, 4, 4, 4, 4, 2000, 4, 4];

fn weighed(start: usize, end: usize) -> Result<Vec<(usize, bool)>, OutOfMemory> {
    let room = if falls_back() { 1000 } else { 16 };
    let cost: u64 = COSTS[start..end].iter().sum();
    if cost > room {
        return Err(OutOfMemory::new(Some(cost)));
    }
    Ok((start..end).map(|item| (item, falls_back())).collect())
}

/// Each item that is done; true in fallback. Fallback starts at item 4, which does not fit by itself. Item 9 fits
/// nowhere.
fn done() -> Vec<(usize, bool)> {
    (0..12).filter(|&item| item != 9).map(|item| (item, item >= 4)).collect()
}

/// An item that does not fit in the other memory either is left out, or its failure goes through in the end.
#[test]
fn a_single_item_that_does_not_fit_takes_the_rest_along() {
    let form = || execute::with::<NoCache>().ladder(ladder()).by_cost(|item| COSTS[item]);
    let mut left_out = Vec::new();
    let with = form().left_out(|item| left_out.push((item.index, item.failure.requested_bytes)));
    assert_eq!(with.map(0..12, 16, weighed).unwrap().concat(), done());
    assert_eq!(left_out, [(9, Some(2000))]);
    let report = report::last().unwrap();
    assert_eq!((report.left_out, report.fell_back, report.done), (vec![9], true, 11));

    let all = RefCell::new(Vec::new());
    let by = |start, end| weighed(start, end).map(|items| all.borrow_mut().extend(items));
    assert_eq!(form().range(0..12, 16, by).unwrap_err().requested_bytes(), Some(2000));
    assert_eq!(all.take(), done());
    let rows: Vec<_> = form().left_out(|_| ()).iter(0..12, 16, weighed).map(Result::unwrap).collect();
    assert_eq!(rows.concat(), done());
    let mut stream = form().left_out(|_| ()).stream(0..12, 16, async |start, end| {
        pause().await;
        weighed(start, end)
    });
    while let Some(row) = block_on(stream.next()) {
        all.borrow_mut().extend(row.unwrap());
    }
    assert_eq!(all.take(), done());
    // Attempts in fallback count, too.
    form().left_out(|_| ()).max_attempts(1).map(0..9, 16, weighed).unwrap();
    let report = report::last().unwrap();
    assert_eq!((report.left_out, report.fell_back), (vec![4], false));
}

/// Sizes learned on the device stay unchanged, whatever fits in the other memory.
#[test]
fn remembered_sizes_of_the_device_stay() {
    fn call(cache: &dyn SizeCache, policy: &dyn toma::policy::Policy, limit: &Cell<u64>) -> Vec<usize> {
        let (device, mut sizes) = (FakeDevice::new(1000), Vec::new());
        let with = execute::with::<NoCache>().cache(cache).policy(policy).ladder(ladder()).key("same");
        with.range(0..64, 32, |start, end| {
            sizes.push(end - start);
            let bytes = (end - start) as u64;
            if falls_back() {
                return if bytes > 2 { Err(device.alloc(2000).unwrap_err()) } else { Ok(()) };
            }
            device.alloc(if bytes > limit.get() { 2000 } else { 1 }).map(drop)
        })
        .unwrap();
        sizes
    }
    for policy in [&toma::Halve as &dyn toma::policy::Policy, &Bisect::default(), &Adaptive::default()] {
        let (cache, limit) = (GlobalCache::new(), Cell::new(16));
        call(&cache, policy, &limit);
        let known = cache.entries()[0].remembered.clone();
        limit.set(0);
        let sizes = call(&cache, policy, &limit);
        assert!(sizes.ends_with(&[2, 2]), "{sizes:?}");
        assert!(report::last().unwrap().fell_back);
        let entries = cache.entries();
        assert_eq!((entries.len(), entries[0].remembered.settled), (1, known.settled));
        assert_eq!(entries[0].remembered.bounds, known.bounds);
        limit.set(16);
        assert!(call(&cache, policy, &limit)[0] >= known.settled);
    }
}

/// `resume_unwind` does not call the panic hook, so the panic is never printed and needs no silencing.
#[test]
fn panics_that_never_meet_the_hook_fall_back_too() {
    let body = |size| {
        if !falls_back() {
            std::panic::resume_unwind(Box::new(OutOfMemory::new(None)));
        }
        size
    };
    let with = execute::with::<NoCache>().ladder(Ladder::default().fallback(true));
    assert_eq!(with.batch(1, body), 1);
}
