//! Packing of items into pieces, and costs given by users.

use toma::classify::OutOfMemory;
use toma::execute;
use toma::{Bisect, NoCache};

/// Returns start and end of each piece.
fn packed(costs: &[u64], step: usize) -> Vec<(usize, usize)> {
    execute::with::<NoCache>().by_cost(|i| costs[i]).map(0..costs.len(), step, |start, end| (start, end))
}

#[test]
fn a_piece_takes_what_fits() {
    assert_eq!(packed(&[5, 5, 5, 5, 1], 10), [(0, 2), (2, 4), (4, 5)]);
    assert_eq!(packed(&[5, 5, 5, 5, 1], 11), [(0, 2), (2, 5)]);
    assert_eq!(packed(&[11, 5, 11, 11], 10), [(0, 1), (1, 2), (2, 3), (3, 4)]);
    assert_eq!(packed(&[1; 5], 1), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]);
    assert_eq!(packed(&[7; 3], usize::MAX), [(0, 3)]);
    assert_eq!(packed(&[0; 5], 2), [(0, 2), (2, 4), (4, 5)], "an item costs at least 1");
    assert_eq!(packed(&[0, 3, 0, 0, 3, 0], 3), [(0, 1), (1, 2), (2, 4), (4, 5), (5, 6)]);
    // The sums exceed every integer type.
    let costs = [u64::MAX, u64::MAX, 1, 1, u64::MAX, 0];
    for step in [2, usize::MAX] {
        assert_eq!(packed(&costs, step), [(0, 1), (1, 2), (2, 4), (4, 5), (5, 6)]);
    }
}

#[test]
fn nothing_to_do_asks_nothing() {
    let form = || execute::with::<NoCache>().by_cost(|_| -> u64 { panic!("nothing costs anything") });
    let never = || -> usize { panic!("nothing to do") };
    form().range(7..7, 4, |_, _| assert_eq!(never(), 0));
    assert!(form().map(7..7, 4, |_, _| never()).is_empty());
    assert_eq!(form().iter(7..7, 4, |_, _| never()).next(), None);
}

struct Tokens(u32);

impl From<Tokens> for u64 {
    fn from(tokens: Tokens) -> Self {
        tokens.0.into()
    }
}

#[test]
fn costs_are_whatever_converts_into_a_u64() {
    let lens: [usize; 3] = [4, 4, 4];
    let form = execute::with::<NoCache>;
    assert_eq!(form().by_cost(|i| lens[i]).map(0..3, 8, |s, e| e - s), [2, 1]);
    assert_eq!(form().by_cost(|_| 4).map(0..3, 8, |s, e| e - s), [2, 1]);
    assert_eq!(form().by_cost(|_| 4_i64).map(0..3, 8, |s, e| e - s), [2, 1]);
    assert_eq!(form().by_cost(|_| b'\x04').map(0..3, 8, |s, e| e - s), [2, 1]);
    assert_eq!(form().by_cost(|_| Tokens(4)).map(0..3, 8, |s, e| e - s), [2, 1]);
}

#[test]
fn options_come_before_and_after() {
    let sizes = |is_before: bool| {
        let mut sizes = Vec::new();
        let body = |start: usize, end: usize| {
            sizes.push(end - start);
            if end - start > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        };
        let form = execute::with::<NoCache>();
        let result = if is_before {
            form.min(30).policy(Bisect::default()).by_cost(|_| 10).range(0..8, 80, body)
        } else {
            form.by_cost(|_| 10).policy(Bisect::default()).min(30).range(0..8, 80, body)
        };
        result.unwrap_err();
        sizes
    };
    assert_eq!([true, false].map(sizes), [[8, 4, 3], [8, 4, 3]], "a step of 30 is the floor");
}
