//! Iterators and streams over items of different costs. The rules of sizes by cost are tested in `tests/sizes/cost`.

use toma::classify::OutOfMemory;
use toma::{NoCache, execute, report};

use crate::lazy::{block_on, pause};

const COSTS: [u64; 7] = [4, 4, 50, 4, 4, 60, 1];

async fn body(start: usize, end: usize) -> Result<usize, OutOfMemory> {
    pause().await;
    if COSTS[start..end].iter().sum::<u64>() > 10 {
        Err(OutOfMemory::new(Some(start as u64)))
    } else {
        Ok(start)
    }
}

#[test]
fn an_item_that_is_left_out_is_reported_in_the_middle() {
    let left_out = std::cell::RefCell::new(Vec::new());
    let form = execute::with::<NoCache>()
        .by_cost(|i| COSTS[i])
        .left_out(|item| left_out.borrow_mut().push(item.index));
    let mut rows = form.stream(0..7, 10, body);
    assert_eq!((block_on(rows.next()), left_out.borrow().len()), (Some(Ok(0)), 0));
    assert_eq!((block_on(rows.next()), left_out.borrow().len()), (Some(Ok(3)), 1));
    assert_eq!((block_on(rows.next()), left_out.borrow().len()), (Some(Ok(6)), 2));
    assert_eq!(block_on(rows.next()), None);
}

#[test]
fn a_panic_that_was_kept_ends_it() {
    let mut rows = execute::with::<NoCache>().by_cost(|i| COSTS[i]).stream(0..7, 10, async |start, end| {
        body(start, end).await.expect("CUDA out of memory. Tried to allocate 1 byte");
    });
    for _ in 0..3 {
        assert_eq!(block_on(rows.next()), Some(()));
    }
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block_on(rows.next())));
    assert!(panic.is_err());
    assert_eq!(block_on(rows.next()), None);
    assert_eq!(report::last().unwrap().left_out, [2, 5]);
}
