//! Free memory chooses among the entries of one key, and never sends a call back to its initial
//! size.

use toma::GlobalCache;

use crate::kit::{AnyStack, GIB, MIB, Memory, batch, settled};

/// A cache in which the batch settled at `learned.1` items while `learned.0` bytes were free.
fn taught(levels: &[(u64, usize)]) -> (AnyStack, Memory) {
    let (cache, memory) = (AnyStack::default(), Memory::new(0));
    for &(free_bytes, size) in levels {
        learn(&cache, &memory, free_bytes, size);
    }
    (cache, memory)
}

/// Lets the batch fail above `size` from wherever it starts.
fn learn(cache: &AnyStack, memory: &Memory, free_bytes: u64, size: usize) {
    memory.has_free(free_bytes);
    let tried = batch(cache, memory, 1024, size);
    assert!(tried.len() > 1, "started at {tried:?} with {free_bytes} bytes free, so nothing was learned");
    assert_eq!(tried.last(), Some(&size));
}

/// Where the batch starts with `free_bytes`, when it does not fail.
fn start(cache: &AnyStack, memory: &Memory, free_bytes: u64) -> usize {
    memory.has_free(free_bytes);
    let tried = batch(cache, memory, 1024, usize::MAX);
    assert_eq!(tried.len(), 1);
    tried[0]
}

#[test]
fn one_entry_serves_every_level() {
    let (cache, memory) = taught(&[(10 * GIB, 64)]);
    let free = [0, 1, MIB, GIB, 9 * GIB, 10 * GIB - 300 * MIB, 10 * GIB, 11 * GIB, 80 * GIB, u64::MAX - 1];
    for free_bytes in free {
        assert_eq!(start(&cache, &memory, free_bytes), 64, "{free_bytes} bytes free");
    }
    memory.cannot_be_read();
    assert_eq!(batch(&cache, &memory, 1024, 64), [64]);
}

#[test]
fn one_entry_is_used_without_reading_memory() {
    let (cache, memory) = taught(&[(10 * GIB, 64)]);
    let before = memory.readings();
    assert_eq!(start(&cache, &memory, GIB), 64);
    assert_eq!(memory.readings(), before);
}

#[test]
fn the_entry_learned_nearest_below_is_taken() {
    let (cache, memory) = taught(&[(40 * GIB, 512), (20 * GIB, 256), (5 * GIB, 64)]);
    let chosen = [0, 1, 5, 6, 18, 20, 30, 37, 39, 40, 80].map(|gib| start(&cache, &memory, gib * GIB));
    // 5 % below 20 GiB is 19, and below 40 GiB 38.
    assert_eq!(chosen, [64, 64, 64, 64, 64, 256, 256, 256, 512, 512, 512]);
    assert_eq!(start(&cache, &memory, 19 * GIB), 256);
    assert_eq!(settled(&cache.0.entries()), [64, 256, 512]);
}

#[test]
fn a_neighbor_that_takes_300_mib_does_not_bring_the_failures_back() {
    let (cache, memory) = taught(&[(10 * GIB, 64), (2 * GIB, 16)]);
    for free_bytes in [10 * GIB - 300 * MIB, 10 * GIB - 512 * MIB, 10 * GIB + 300 * MIB] {
        assert_eq!(start(&cache, &memory, free_bytes), 64, "{free_bytes} bytes free");
    }
    for free_bytes in [2 * GIB - 300 * MIB, 2 * GIB, 2 * GIB + 300 * MIB, 9 * GIB] {
        assert_eq!(start(&cache, &memory, free_bytes), 16, "{free_bytes} bytes free");
    }
}

#[test]
fn half_a_gib_is_about_equal_where_a_twentieth_is_less() {
    let (cache, memory) = taught(&[(5 * GIB, 64), (2 * GIB, 16)]);
    assert_eq!(start(&cache, &memory, 5 * GIB - 300 * MIB), 64);
    assert_eq!(start(&cache, &memory, 5 * GIB - 513 * MIB), 16);
    learn(&cache, &memory, 2 * GIB + 512 * MIB, 8);
    assert_eq!(settled(&cache.0.entries()), [8, 64]);
}

#[test]
fn less_free_memory_than_ever_learns_a_level_of_its_own() {
    let (cache, memory) = taught(&[(10 * GIB, 64)]);
    memory.has_free(2 * GIB);
    assert_eq!(batch(&cache, &memory, 1024, 16), [64, 32, 16], "what failed with more fails again");
    assert_eq!(batch(&cache, &memory, 1024, 16), [16]);
    assert_eq!(start(&cache, &memory, 10 * GIB), 64, "the higher level is still known");
}

#[test]
fn at_most_four_levels_are_kept_and_the_oldest_goes() {
    let levels = [(70, 512), (60, 256), (50, 128), (40, 64), (30, 32), (20, 16)];
    let (cache, memory) = taught(&levels.map(|(gib, size)| (gib * GIB, size)));
    assert_eq!(settled(&cache.0.entries()), [16, 32, 64, 128]);
    assert_eq!(start(&cache, &memory, 70 * GIB), 128, "the nearest below that is left");
    assert_eq!(start(&cache, &memory, 45 * GIB), 64);
    assert_eq!(start(&cache, &memory, GIB), 16);
}

#[test]
fn a_reading_that_fails_once_does_not_forget_the_levels() {
    let (cache, memory) = taught(&[(20 * GIB, 256), (5 * GIB, 64)]);
    memory.cannot_be_read();
    let tried = batch(&cache, &memory, 1024, 32);
    assert_eq!(tried, [64, 32], "the lowest level is what is safe");
    assert_eq!(batch(&cache, &memory, 1024, 32), [32], "and what failed is not tried again");
    assert_eq!(start(&cache, &memory, 20 * GIB), 256);
    assert_eq!(start(&cache, &memory, 5 * GIB), 64);
    memory.cannot_be_read();
    assert_eq!(batch(&cache, &memory, 1024, 32), [32]);
}

#[test]
fn a_global_cache_has_one_level_whatever_is_free() {
    let (cache, memory) = (GlobalCache::new(), Memory::new(40 * GIB));
    assert_eq!(batch(&cache, &memory, 1024, 256), [1024, 512, 256]);
    memory.has_free(GIB);
    assert_eq!(batch(&cache, &memory, 1024, 64), [256, 128, 64]);
    memory.has_free(40 * GIB);
    assert_eq!(batch(&cache, &memory, 1024, 256), [64]);
    assert_eq!(settled(&cache.entries()), [64]);
    assert_eq!(cache.entries()[0].remembered.free_bytes, None);
}
