//! Offers of asynchronous bodies, which move with the task.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use toma::classify::OutOfMemory;
use toma::{NoCache, execute};

use crate::executor::{block_on, pause, poll};
use crate::region::Region;

#[toma::batch(initial = 16, cache = NoCache)]
async fn batches(size: usize, region: &Arc<Region>) -> Result<usize, OutOfMemory> {
    let result = region.run(size);
    pause().await;
    result
}

#[toma::range(initial = 16, cache = NoCache)]
async fn ranges(start: usize, end: usize, region: &Arc<Region>) -> Result<(), OutOfMemory> {
    pause().await;
    region.run(end - start).map(drop)
}

#[test]
fn offers_outlast_the_poll() {
    let region = Region::new(&[10, 6, 3], 50);
    assert_eq!(block_on(batches(&region)), Ok(8));
    assert_eq!(region.attempts(), [(16, 0), (16, 1), (8, 1)]);
    let region = Region::new(&[10, 6, 3], 50);
    block_on(ranges(0, 16, &region)).unwrap();
    assert_eq!(region.attempts(), [(16, 0), (16, 1), (8, 1), (8, 1)]);
    assert_eq!(Arc::strong_count(&region), 1);
}

#[test]
fn a_stream_takes_the_rung() {
    let region = Region::new(&[10, 6, 3], 50);
    let values = block_on(async {
        let mut rows = execute::with::<NoCache>().stream(0..16, 16, async |start, end| {
            let result = region.run(end - start);
            pause().await;
            result
        });
        let mut values = Vec::new();
        while let Some(row) = rows.next().await {
            values.push(row.unwrap());
        }
        values
    });
    assert_eq!(values, [8, 8]);
    assert_eq!(region.attempts(), [(16, 0), (16, 1), (8, 1), (8, 1)]);
}

#[test]
fn tasks_of_one_thread_do_not_see_each_other() {
    let (one, other) = (Region::new(&[10, 3], 50), Region::new(&[10, 9], 50));
    {
        let (mut first, mut second) = (pin!(batches(&one)), pin!(batches(&other)));
        while poll(first.as_mut()).is_pending() {
            assert!(poll(second.as_mut()).is_pending());
        }
        assert_eq!(block_on(second), Ok(4));
    }
    assert_eq!(one.attempts(), [(16, 0), (16, 1)]);
    assert_eq!(other.attempts(), [(16, 0), (16, 1), (8, 1), (4, 1)]);
}

#[test]
fn an_attempt_that_is_dropped_while_it_waits_drops_its_offers() {
    let region = Region::new(&[10, 5], 50);
    {
        let mut future = pin!(batches(&region));
        assert!(poll(future.as_mut()).is_pending());
        assert!(Arc::strong_count(&region) > 1);
    }
    assert_eq!((Arc::strong_count(&region), region.asked.load(SeqCst)), (1, 0));
}
