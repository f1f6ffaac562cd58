//! Call sites whose attempts have offered a leaner plan.
//!
//! # Why
//!
//! The engine can use a plan only after an attempt that was promised a retry. At the floor that promise may be in vain.
//! The panic that was kept back is then printed when it is passed on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::call_site::{Origin, hash_of};
use crate::switches::Switches;

/// Largest number of call sites that are recorded. Further ones are promised no retry at the floor.
const SLOTS: usize = 1024;

/// Numbers of call sites, each in the first free slot from index `number % SLOTS` on; 0 marks a free slot.
static SITES: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

fn number_of(origin: &Origin) -> u64 {
    // An annotated function has one number, whichever line calls it.
    origin.site.map_or_else(|| hash_of(origin.caller), hash_of).max(1)
}

/// Returns the slots that may hold a number, in the order of the search.
fn slots(number: u64) -> impl Iterator<Item = &'static AtomicU64> {
    let first = usize::try_from(number % SLOTS as u64).unwrap_or_default();
    (0..SLOTS).map(move |at| &SITES[(first + at) % SLOTS])
}

/// Records that an attempt of this call site has offered a handle.
#[cold]
pub(crate) fn has_offered(origin: &Origin) {
    add(number_of(origin));
}

fn add(number: u64) {
    let is_there = |slot: &AtomicU64| match slot.compare_exchange(0, number, Relaxed, Relaxed) {
        Ok(_) => true,
        Err(other) => other == number,
    };
    // A number that is recorded already is not written again, because other threads read it.
    if !is_in(number) && slots(number).any(is_there) {
        Switches::set(Switches::OFFERED, true);
    }
}

/// Returns true if an attempt of this call site has offered a handle.
#[cold]
pub(crate) fn offers(origin: &Origin) -> bool {
    is_in(number_of(origin))
}

fn is_in(number: u64) -> bool {
    slots(number).map(|slot| slot.load(Relaxed)).take_while(|&other| other != 0).any(|other| other == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_begin_at_one_slot_are_distinguished() {
        let numbers = [1, 2, 3].map(|times| times * SLOTS as u64 - 1);
        add(numbers[0]);
        add(numbers[1]);
        add(numbers[0]);
        assert_eq!(numbers.map(is_in), [true, true, false]);
    }
}
