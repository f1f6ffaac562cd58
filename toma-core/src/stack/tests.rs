use std::collections::{HashMap, HashSet};
use std::hint::black_box;

use proptest::prelude::*;

use super::outside::StackFrame;
use super::walk::portable;
use super::*;

/// A frame of an imagined stack.
struct Fake {
    stack_pointer: usize,
    function_start: usize,
}

impl StackFrame for Fake {
    fn stack_pointer(&self) -> usize {
        self.stack_pointer
    }

    fn function_start(&self) -> usize {
        self.function_start
    }
}

/// The hash of whole chains, without frames and limits.
fn digest(starts: impl IntoIterator<Item = usize>) -> u128 {
    starts.into_iter().fold(INITIAL, absorb)
}

/// Returns the digest of imagined frames, and the number of frames that were visited.
fn walk_fake(entry: usize, frames: &[(usize, usize)]) -> (u128, usize) {
    let (mut state, mut shown) = (INITIAL, 0);
    let mut outside = Outside::of(entry, |start| state = absorb(state, start));
    for &(stack_pointer, function_start) in frames {
        shown += 1;
        if outside.visit(&Fake { stack_pointer, function_start }).is_break() {
            break;
        }
    }
    (state, shown)
}

#[inline(never)]
fn entry() -> Fingerprint {
    let anchor = 0_u8;
    black_box(fingerprint(std::ptr::from_ref(&anchor).addr()))
}

#[inline(never)]
fn portable_entry() -> Fingerprint {
    let anchor = 0_u8;
    let mut state = INITIAL;
    let entry = std::ptr::from_ref(&anchor).addr();
    portable::frames(&mut Outside::of(entry, |start| state = absorb(state, start)));
    black_box(Fingerprint(state))
}

/// Two functions that call each other or themselves as the bits of `path` select, then `probe`.
///
/// The code after each call keeps it from becoming a jump, and differs to keep the two apart.
#[inline(never)]
fn even(path: u64, depth: usize, probe: fn() -> Fingerprint) -> Fingerprint {
    black_box(descend(path, depth, probe))
}

#[inline(never)]
fn odd(path: u64, depth: usize, probe: fn() -> Fingerprint) -> Fingerprint {
    let found = descend(path, depth, probe);
    black_box(depth);
    found
}

#[expect(clippy::inline_always, reason = "a frame of its own in debug builds would use the limit up")]
#[inline(always)]
fn descend(path: u64, depth: usize, probe: fn() -> Fingerprint) -> Fingerprint {
    match depth {
        0 => probe(),
        _ if path & 1 == 0 => even(path >> 1, depth - 1, probe),
        _ => odd(path >> 1, depth - 1, probe),
    }
}

#[test]
fn frames_up_to_the_entry_do_not_count() {
    let outside = [(101, 7), (150, 8)];
    let few = [(90, 1), (101, 7), (150, 8)];
    let many = [(10, 5), (20, 6), (99, 1), (100, 2), (101, 7), (150, 8)];
    assert_eq!(walk_fake(100, &few).0, digest([7, 8]));
    assert_eq!(walk_fake(100, &many).0, walk_fake(100, &outside).0);
}

#[test]
fn frames_on_another_stack_count_after_the_first() {
    let switched = [(90, 1), (101, 7), (20, 8), (30, 9)];
    assert_eq!(walk_fake(100, &switched).0, digest([7, 8, 9]));
}

#[test]
fn an_entry_above_or_below_everything_is_harmless() {
    let frames = [(10, 1), (20, 2)];
    assert_eq!(walk_fake(usize::MAX, &frames).0, INITIAL);
    assert_eq!(walk_fake(0, &frames).0, digest([1, 2]));
    assert_eq!(fingerprint(usize::MAX).to_bits(), INITIAL);
    assert_ne!(fingerprint(0).to_bits(), INITIAL);
}

#[test]
fn the_walk_stops_after_the_limit() {
    let frames: Vec<_> = (1..=100).map(|n| (n, n)).collect();
    let (state, shown) = walk_fake(10, &frames);
    assert_eq!(shown, 10 + FRAME_LIMIT);
    assert_eq!(state, digest(11..11 + FRAME_LIMIT));
}

#[test]
fn both_ways_to_walk_see_the_same_functions() {
    // Deep enough that neither walk reaches the end of the stack, which they report differently.
    for path in 0..32 {
        let path = path * 0x0842_1084;
        let direct = even(path, FRAME_LIMIT + 6, entry);
        assert_eq!(direct, even(path, FRAME_LIMIT + 6, portable_entry), "path {path:#x}");
    }
}

#[test]
fn equal_paths_are_equal_and_different_paths_differ() {
    let mut seen = HashMap::new();
    for path in 0..256 {
        let found = even(path, 8, entry);
        assert_eq!(found, even(path, 8, entry), "path {path:#x}");
        assert_eq!(seen.insert(found, path), None, "path {path:#x}");
    }
}

#[test]
fn debug_shows_all_bits() {
    assert_eq!(format!("{:?}", Fingerprint(0xab)), format!("Fingerprint(0x{}ab)", "0".repeat(30)));
}

/// Steps a splitmix generator.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

/// A short chain out of few functions, each aligned to 16 bytes, as in one small program.
fn short_chain(seed: &mut u64) -> Vec<usize> {
    let length = 1 + next(seed) % 8;
    (0..length).map(|_| 0x5555_5555_4000 + 16 * usize::from(next(seed).to_le_bytes()[5])).collect()
}

#[test]
fn a_hundred_thousand_short_chains_do_not_collide_in_either_half() {
    let mut seed = 1;
    let chains: HashSet<_> = std::iter::repeat_with(|| short_chain(&mut seed)).take(120_000).collect();
    assert!(chains.len() > 100_000, "{} chains", chains.len());
    let digests: Vec<_> = chains.iter().map(|chain| digest(chain.iter().copied())).collect();
    let low: HashSet<_> = digests.iter().map(|&digest| digest & u128::from(u64::MAX)).collect();
    let high: HashSet<_> = digests.iter().map(|&digest| digest >> 64).collect();
    assert_eq!((low.len(), high.len()), (chains.len(), chains.len()));
}

#[test]
fn each_bit_of_an_address_flips_about_half_of_the_bits_within_two_frames() {
    for bit in 4..47 {
        let flips: u32 = (0..64_usize)
            .map(|n| {
                let start = 0x5555_5555_4000 + 64 * n;
                (digest([start, start]) ^ digest([start ^ (1 << bit), start])).count_ones()
            })
            .sum();
        assert!((48..80).contains(&(flips / 64)), "bit {bit} flips {flips} bits in 64 trials");
    }
}

proptest! {
    #[test]
    fn permutations_differ(
        (chain, shuffled) in prop::collection::vec(1_usize..1 << 47, 2..25)
            .prop_flat_map(|chain| (Just(chain.clone()), Just(chain).prop_shuffle()))
    ) {
        let equal = digest(chain.iter().copied()) == digest(shuffled.iter().copied());
        prop_assert_eq!(equal, chain == shuffled);
    }

    #[test]
    fn one_frame_more_or_less_or_other_differs(
        chain in prop::collection::vec(0_usize..1 << 47, 1..24),
        at in any::<prop::sample::Index>(),
        other in 0_usize..1 << 47,
    ) {
        let at = at.index(chain.len());
        let whole = digest(chain.iter().copied());
        let mut changed = chain.clone();
        changed[at] = other;
        prop_assert_eq!(whole == digest(changed.iter().copied()), chain == changed);
        changed.remove(at);
        prop_assert_ne!(whole, digest(changed.iter().copied()));
    }
}
