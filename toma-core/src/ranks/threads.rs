//! Ranks that are threads of one process: for tests, and for several devices in one process.

use super::{Member, MemoryStore};

/// Returns `size` ranks, each for a thread of this process, in the order of their numbers.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::thread;
/// use toma::ranks::{self, Group as _};
///
/// let values: Vec<_> = thread::scope(|scope| {
///     let ask = |rank: ranks::Member| rank.smallest(10 + rank.rank());
///     let asked: Vec<_> = ranks::threads(3).into_iter().map(|rank| scope.spawn(move || ask(rank))).collect();
///     asked.into_iter().map(|rank| rank.join().unwrap()).collect()
/// });
/// assert_eq!(values, [Ok(10), Ok(10), Ok(10)]);
/// ```
///
/// # Panics
/// When `size` is 0.
pub fn threads(size: usize) -> Vec<Member> {
    assert!(size > 0, "size 0: must be at least 1");
    let store = MemoryStore::default();
    let member = |rank| Member::new(store.clone(), rank, size).unwrap_or_else(|error| panic!("{error}"));
    (0..size).map(member).collect()
}
