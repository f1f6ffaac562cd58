//! Call sites whose attempts have offered a leaner plan.
//!
//! # Why
//!
//! A plan can be asked for only after an attempt that was promised a retry. At the floor that promise may
//! be vain. The panic that was kept back is then printed where it is passed on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::call_site::{Origin, hash_of};
use crate::switches;

/// One bit for each of so many numbers of call sites.
///
/// Two sites may share a bit. Then a panic at the floor of the one that offers nothing is printed a little later, where
/// it is passed on. So a few bits do, and no call of the process pays for a map.
const BITS: usize = 4096;

static SITES: [AtomicU64; BITS / 64] = [const { AtomicU64::new(0) }; BITS / 64];

fn bit(origin: &Origin) -> (&'static AtomicU64, u64) {
    // Of a function, whatever line calls it.
    let number = origin.site.map_or_else(|| hash_of(origin.caller), hash_of);
    let index = usize::try_from(number % BITS as u64).unwrap_or_default();
    (&SITES[index / 64], 1 << (index % 64))
}

/// An attempt of this call site has offered something.
#[cold]
pub(crate) fn has_offered(origin: &Origin) {
    let (word, bit) = bit(origin);
    // What is set already is not written again: other threads read it.
    if word.load(Relaxed) & bit == 0 {
        word.fetch_or(bit, Relaxed);
        switches::set_offered();
    }
}

/// Whether an attempt of this call site has offered something, or of another that shares its bit.
#[cold]
pub(crate) fn offers(origin: &Origin) -> bool {
    let (word, bit) = bit(origin);
    word.load(Relaxed) & bit != 0
}
