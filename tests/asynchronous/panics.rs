//! Panics: out of memory is tried again wherever it comes, everything else passes through.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use tokio::runtime::Builder;
use toma::NoCache;

use crate::{OUT_OF_MEMORY, block_on, failures, pause};

#[toma::batch(initial = 16, cache = NoCache)]
async fn before_an_await(size: usize, limit: usize) -> usize {
    assert!(size <= limit, "{OUT_OF_MEMORY}");
    pause().await;
    size
}

#[toma::batch(initial = 16, cache = NoCache)]
async fn after_an_await(size: usize, limit: usize) -> usize {
    pause().await;
    pause().await;
    assert!(size <= limit, "{OUT_OF_MEMORY}");
    size
}

#[toma::range(initial = 16, cache = NoCache)]
async fn between_awaits(start: usize, end: usize, done: &mut Vec<usize>) {
    pause().await;
    assert!(start < 8 || end - start <= 2, "{OUT_OF_MEMORY}");
    pause().await;
    done.extend(start..end);
}

#[toma::chunked(initial = 16, cache = NoCache)]
async fn in_what_is_awaited(data: &mut [u8], _start: usize, _end: usize) {
    async fn allocate(items: usize) {
        pause().await;
        assert!(items <= 4, "{OUT_OF_MEMORY}");
    }
    allocate(data.len()).await;
    data.fill(1);
}

#[test]
fn out_of_memory_is_tried_again() {
    assert_eq!((block_on(before_an_await(4)), failures()), (4, 2));
    assert_eq!((block_on(after_an_await(4)), failures()), (4, 2));
    let mut done = Vec::new();
    block_on(between_awaits(0, 32, &mut done));
    assert_eq!((done, failures()), ((0..32).collect::<Vec<_>>(), 3));
    let mut data = [0; 16];
    block_on(in_what_is_awaited(&mut data));
    assert_eq!((data, failures()), ([1; 16], 2));
}

#[test]
fn at_the_floor_the_panic_passes() {
    for future in [
        Box::pin(before_an_await(0)) as std::pin::Pin<Box<dyn Future<Output = usize>>>,
        Box::pin(after_an_await(0)),
    ] {
        let payload = catch_unwind(AssertUnwindSafe(|| block_on(future))).unwrap_err();
        assert_eq!(payload.downcast_ref::<String>().unwrap(), OUT_OF_MEMORY);
        assert_eq!(failures(), 5);
    }
}

#[toma::batch(initial = 16, cache = NoCache)]
async fn otherwise(size: usize, runs: &mut usize) -> usize {
    *runs += 1;
    if *runs == 1 {
        pause().await;
    }
    panic_any(size)
}

#[test]
fn other_panics_pass_at_once_with_their_payload() {
    for mut runs in [0, 1] {
        let before = runs;
        let payload = catch_unwind(AssertUnwindSafe(|| block_on(otherwise(&mut runs)))).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&16_usize));
        assert_eq!(runs, before + 1);
    }
}

#[test]
fn a_task_that_panics_harms_no_other() {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let failed = tokio::spawn(after_an_await(0)).await.unwrap_err();
        assert_eq!(failed.into_panic().downcast_ref::<String>().unwrap(), OUT_OF_MEMORY);
        assert_eq!(tokio::spawn(after_an_await(4)).await.unwrap(), 4);
    });
}
