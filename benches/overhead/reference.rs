//! The reference workload: float32 128x256x256 in 4 chunks of 8 MiB; the body writes 1.0, and the
//! data is read afterwards, so that no store is dead.

use std::hint::black_box;

use toma::{NoCache, execute};

use super::measure::pairs;

const ITEMS: usize = 128;
const ITEM: usize = 256 * 256;
const STEP: usize = 32;

pub(crate) fn report(rounds: usize) {
    let mut data = vec![0.0_f32; ITEMS * ITEM];
    let cell = std::cell::RefCell::new(&mut data[..]);
    let hand = || check(hand(&mut cell.borrow_mut()));
    let ours = || check(ours(&mut cell.borrow_mut()));
    let pair = pairs(rounds, hand, ours);
    println!("reference workload, {rounds} alternating pairs (bar: 1.02x)");
    println!("  hand {:.2?}, toma {:.2?}, median ratio {:.4}x", pair.baseline, pair.ours, pair.ratio);
}

fn check(sum: f32) {
    assert!((black_box(sum) - 128.0).abs() < f32::EPSILON, "the data was not written");
}

#[inline(never)]
fn hand(data: &mut [f32]) -> f32 {
    for chunk in data.chunks_mut(STEP * ITEM) {
        chunk.fill(1.0);
    }
    read(data)
}

#[inline(never)]
fn ours(data: &mut [f32]) -> f32 {
    execute::with::<NoCache>().chunked(&mut *data, STEP * ITEM, |chunk, _, _| chunk.fill(1.0));
    read(data)
}

/// Reads one value of each item: the stores must happen, but reading must not dominate.
fn read(data: &[f32]) -> f32 {
    black_box(data).iter().step_by(ITEM).sum()
}
