//! Slices outside of tuples.

use toma::{NoCache, execute};

use crate::chunks::panic_of;

#[test]
fn items_without_size_are_counted() {
    let (mut units, mut done) = (vec![(); 10], 0);
    execute::with::<NoCache>().chunked(
        (&mut units[..], &[[0_u64; 0]; 10][..]),
        4,
        |(units, arrays), start, end| {
            assert_eq!((units.len(), arrays.len()), (end - start, end - start));
            done += units.len();
        },
    );
    assert_eq!(done, 10);
}

#[test]
fn more_items_without_size_than_any_memory_holds() {
    let units = [(); usize::MAX];
    let mut pieces = Vec::new();
    execute::with::<NoCache>().chunked(&units[..], usize::MAX - 1, |chunk, start, end| {
        assert_eq!(chunk.len(), end - start);
        pieces.push(end - start);
    });
    assert_eq!(pieces, [usize::MAX - 1, 1]);
}

#[test]
fn a_slice_has_one_axis() {
    for dim in [0, -1] {
        let mut ends = Vec::new();
        execute::with::<NoCache>().dim(dim).chunked(&[0; 3][..], 2, |_, _, end| ends.push(end));
        assert_eq!(ends, [2, 3], "dim {dim}");
    }
    for dim in [1, 2, isize::MAX, -2, isize::MIN] {
        let shared = panic_of(|| execute::with::<NoCache>().dim(dim).chunked(&[0; 3][..], 2, |_, _, _| ()));
        let exclusive =
            panic_of(|| execute::with::<NoCache>().dim(dim).chunked(&mut [0; 3][..], 2, |_, _, _| ()));
        let words = format!("dim {dim}: must be between -1 and 0 for 1 axes");
        assert_eq!([shared, exclusive], [words.clone(), words]);
    }
}
