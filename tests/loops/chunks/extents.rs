//! The parts of a tuple must have one extent.

use toma::{NoCache, execute};

use crate::chunks::{panic_of, unreached};

#[test]
fn any_part_may_be_the_one_that_differs() {
    for odd in 0..6 {
        // An empty part has a different extent, too.
        let extents: [usize; 6] = std::array::from_fn(|part| if part == odd { odd } else { 6 });
        let [first, second, third, fourth, fifth, mut sixth] = extents.map(|extent| vec![0_u8; extent]);
        let words = panic_of(|| {
            let data = (&first[..], &second[..], &third[..], &fourth[..], &fifth[..], &mut sixth[..]);
            execute::with::<NoCache>().chunked(data, 2, |_, _, _| unreached());
        });
        assert_eq!(words, format!("chunked tuple: the extents {extents:?} must be equal"));
    }
}

#[test]
fn a_nested_tuple_speaks_first() {
    let words = panic_of(|| {
        let data = (&[0; 9][..], (&[0; 3][..], &[0; 4][..]));
        execute::with::<NoCache>().chunked(data, 2, |_, _, _| unreached());
    });
    assert_eq!(words, "chunked tuple: the extents [3, 4] must be equal");
    let words = panic_of(|| {
        let data = (&[0; 9][..], (&[0; 3][..], &[0; 3][..]));
        execute::with::<NoCache>().chunked(data, 2, |_, _, _| unreached());
    });
    assert_eq!(words, "chunked tuple: the extents [9, 3] must be equal");
}

#[test]
fn an_annotated_function_fails_the_same() {
    #[toma::chunked(initial = 2, cache = NoCache)]
    fn annotated((_a, _b): (&[u8], &mut [u8]), _start: usize, _end: usize) {
        unreached();
    }

    let words = panic_of(|| annotated((&[0; 3], &mut [0; 4])));
    assert_eq!(words, "chunked tuple: the extents [3, 4] must be equal");
}
