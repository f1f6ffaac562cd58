//! A fingerprint of the calling thread's stack: which functions led to a call.
//!
//! The default size cache keeps one entry per way of reaching a call site: the same line may be reached with small
//! images from one function and with large ones from another. So a call walks its own stack, up to [`FRAME_LIMIT`]
//! frames, and hashes the functions on it.
//!
//! **Hashed addresses.** The hash takes the address at which the function of each frame begins, never the return
//! address. The optimizer unrolls loops and clones call sites, so one line of source has many return addresses, and a
//! loop keyed on them would start over on every pass. A function begins at one address only, known from the unwind
//! tables, which stripping a program keeps.
//!
//! **Start of the walk.** Frames are counted from the first one whose stack pointer lies above a local variable of the
//! library's entry function, that is, from the caller of that function. The number of the library's own frames below
//! depends on the optimizer's inlining, and none of them is looked at.
//!
//! **Limits.** A function that was inlined, left by a tail call, or merged with another of identical code has no frame
//! or no address of its own. The walk ends at a frame without unwind tables, so the outer functions from there on are
//! missing. All of this is fixed when the program is built, so the fingerprint of one chain of calls is the same
//! throughout. Linkers for Apple systems fold the unwind entries of neighboring functions that need no clean-up, and
//! such neighbors count as one function. With `panic = "abort"`, toolchains before 1.92 write unwind tables only with
//! `-C force-unwind-tables=yes`, and no toolchain writes them with `-C force-unwind-tables=no`: without tables every
//! stack looks the same.
//!
//! **Why no frame pointers.** Following them would be a hundred times faster, but the flags of other crates, which a
//! library cannot see, decide if every outer function keeps one, and a function that does not keep one leaves an
//! ordinary value in the register. Such a chain can be checked for plausibility, not for truth. It would also give
//! return addresses only, and the tables are read to find the beginning of a function.

use std::fmt;

mod callers;
mod outside;
mod walk;

pub use callers::Callers;
pub use outside::FRAME_LIMIT;
use outside::Outside;

/// The result of [`fingerprint`]: 128 bits that stand for the functions on a stack.
///
/// Equal for equal chains of functions. The chance that any two different chains among billions are equal is one in
/// 2^64. Addresses change when a program starts anew, so a fingerprint is valid within one process only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

/// Returns the fingerprint of the callers of the function whose local variable has the address `entry`.
///
/// It takes no lock, allocates nothing, uses no thread-local value and cannot panic, so it works while a thread ends,
/// and on a thread with a tiny stack: the unwinder takes about 5 KiB. (The unwinder of some C libraries locks the list
/// of loaded libraries for a moment; that of glibc since 2.35 does not.) An address that is not on this stack is
/// harmless: more of the library's frames count, or fewer frames do.
///
/// The function that owns the variable must be `#[inline(never)]`. If it were inlined, its caller would own the
/// variable and be left out, perhaps in one copy of a loop's body and not in the next.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::stack::{Fingerprint, fingerprint};
///
/// #[inline(never)]
/// fn entry() -> Fingerprint {
///     let anchor = 0_u8;
///     fingerprint(std::ptr::from_ref(&anchor).addr())
/// }
///
/// let first = entry();
/// let second = entry();
/// assert_eq!(first, second);
/// ```
#[must_use]
pub fn fingerprint(entry: usize) -> Fingerprint {
    let mut state = INITIAL;
    walk::frames(&mut Outside::of(entry, |start| state = absorb(state, start)));
    Fingerprint(state)
}

impl Fingerprint {
    /// The 128 bits, evenly mixed: any of them may choose a slot of a table.
    pub const fn to_bits(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({:#034x})", self.0)
    }
}

/// Any value works; these are digits of pi.
const INITIAL: u128 = 0x243f_6a88_85a3_08d3_1319_8a2e_0370_7344;

/// Mixes one address into the hash.
///
/// For a fixed address each operation is a bijection of the state, and for a fixed state different addresses give
/// different results. So two chains that differ in one frame never collide, and later frames preserve a difference. The
/// upper half of the product depends on every bit of the lower half; folding it down lets the bits of an address, of
/// which the lowest are always zero and the highest nearly always equal, reach the whole state with the next frame.
/// Order matters because each step multiplies the result of the earlier ones.
const fn absorb(state: u128, address: usize) -> u128 {
    /// Odd, so that multiplying loses nothing; the multiplier of the 128-bit PCG generators, chosen for its spectrum.
    const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
    let product = (state ^ address as u128).wrapping_mul(MULTIPLIER);
    product ^ (product >> 64)
}

#[cfg(test)]
mod tests;
