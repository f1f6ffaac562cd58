//! Tests the rung in every form.

use std::sync::Arc;

use toma::classify::OutOfMemory;
use toma::{NoCache, execute};

use crate::region::Region;

/// Sizes and plans tried for 16 items: the same size with a leaner plan, and a smaller size for the rest.
const TRIED: [(usize, usize); 4] = [(16, 0), (16, 1), (8, 1), (8, 1)];

fn region() -> Arc<Region> {
    Region::new(&[10, 6, 3], 50)
}

#[test]
fn of_blocking_bodies() {
    let with = || execute::with::<NoCache>();
    let regions = [(); 6].map(|()| region());
    let [range, chunked, map, fold, iter, costs] = &regions;
    let length = |start: usize, end: usize| end - start;
    with().range(0..16, 16, |start, end| range.run(length(start, end)).map(drop)).unwrap();
    let data = [1_u8; 16];
    with().chunked(&data[..], 16, |chunk: &[u8], _, _| chunked.run(chunk.len()).map(drop)).unwrap();
    let mapped: Vec<_> = with().map(0..16, 16, |start, end| map.run(length(start, end))).unwrap();
    assert_eq!(mapped, [8, 8]);
    let folded = with().fold(0..16, 16, 0, |so_far, start, end| Ok(so_far + fold.run(length(start, end))?));
    assert_eq!(folded, Ok::<_, OutOfMemory>(16));
    let values: Result<Vec<_>, _> =
        with().iter(0..16, 16, |start, end| iter.run(length(start, end))).collect();
    assert_eq!(values, Ok(vec![8, 8]));
    let by_cost = with().by_cost(|_| 1);
    by_cost.range(0..16, 16, |start, end| costs.run(length(start, end)).map(drop)).unwrap();
    for (form, region) in ["range", "chunked", "map", "fold", "iter", "by_cost"].iter().zip(&regions) {
        assert_eq!(region.attempts(), TRIED, "{form}");
        assert_eq!(Arc::strong_count(region), 1, "{form}");
    }
}

#[test]
fn of_attributes() {
    #[toma::range(initial = 16, cache = NoCache)]
    fn ranges(start: usize, end: usize, region: &Arc<Region>) -> Result<(), OutOfMemory> {
        region.run(end - start).map(drop)
    }
    #[toma::chunked(initial = 16, cache = NoCache)]
    fn chunks(data: &[u8], _start: usize, _end: usize, region: &Arc<Region>) -> Result<(), OutOfMemory> {
        region.run(data.len()).map(drop)
    }
    #[toma::batch(initial = 16, cache = NoCache)]
    fn batches(size: usize, region: &Arc<Region>) -> Result<usize, OutOfMemory> {
        region.run(size)
    }
    let [range, chunked, batch] = [(); 3].map(|()| region());
    ranges(0, 16, &range).unwrap();
    chunks(&[0; 16], &chunked).unwrap();
    assert_eq!(batches(&batch), Ok(8));
    assert_eq!([range.attempts(), chunked.attempts()], [TRIED; 2]);
    assert_eq!(batch.attempts(), TRIED[..3]);
}

#[cfg(feature = "testing")]
#[test]
fn an_injected_failure_takes_the_rung_like_any_other() {
    use toma::testing::inject::{self, Verdict};
    let region = Region::new(&[1, 1, 1], 500);
    let after_body = [Verdict::OUT_OF_MEMORY.after_body(); 2];
    let _injection = inject::script(after_body);
    assert_eq!(execute::with::<NoCache>().batch(16, |size| region.run(size)), Ok(8));
    assert_eq!(region.attempts(), [(16, 0), (16, 1), (8, 1)]);
}
