//! Policies that measure, with sizes that are costs.

use std::time::Duration;

use toma::policy::Policy;
use toma::testing::{FakeDevice, StoppedClock};
use toma::{Adaptive, NoCache, Throughput, execute};

/// Returns the cost of an item, from 1 to 7.
fn cost(item: usize) -> usize {
    1 + item * 5 % 7
}

/// Returns the costs of the pieces that succeeded, and the number of failures. An attempt needs 10,000 bytes and 1000
/// for each unit of cost, and takes `millis` for its cost.
fn run(
    (items, cost): (usize, fn(usize) -> usize),
    initial: usize,
    policy: impl Policy,
    millis: impl Fn(usize) -> u64,
) -> (Vec<usize>, usize) {
    let (device, clock) = (FakeDevice::new(210_500), StoppedClock::new());
    let (mut worked, mut failed) = (Vec::new(), 0);
    let with = execute::with::<NoCache>().policy(policy).device(&device).by_cost(cost);
    let done = with.range(0..items, initial, |start, end| {
        let size: usize = (start..end).map(cost).sum();
        clock.advance(Duration::from_millis(millis(size)));
        let memory = device.alloc(10_000 + 1000 * size as u64);
        match memory {
            Ok(_) => worked.push(size),
            Err(_) => failed += 1,
        }
        memory.map(drop)
    });
    done.unwrap();
    (worked, failed)
}

#[test]
fn adaptive_predicts_from_pieces_that_do_not_fill_their_step() {
    let (worked, failed) = run((20_000, |_| 7), 4000, Adaptive::default(), |size| 10 + size as u64);
    assert_eq!(failed, 0);
    let late = &worked[worked.len() / 2..worked.len() - 1];
    assert!(late.iter().all(|size| (160..=200).contains(size)), "{late:?}");
}

/// Each piece is a little smaller than its step, so a step that followed the pieces would shrink, and search upward
/// again, forever.
#[test]
fn throughput_stays_where_a_smaller_step_is_slower() {
    let (worked, failed) = run((20_000, cost), 300, Throughput::default(), |size| 200 + size as u64);
    assert!(failed <= 4, "{failed} failed");
    let late = &worked[worked.len() / 2..worked.len() - 1];
    assert!(late.iter().all(|size| (185..=200).contains(size)), "{late:?}");
}

/// A heavy item that is a piece by itself is no evidence for the memory that other items need.
#[test]
fn a_single_item_is_left_out_and_the_others_keep_their_size() {
    let device = FakeDevice::new(110_500);
    let costs = |item: usize| if item == 500 { 300 } else { 1 };
    let (mut sizes, mut left_out) = (Vec::new(), Vec::new());
    let with = execute::with::<NoCache>().policy(Adaptive::default()).device(&device);
    let with = with.by_cost(costs).left_out(|item| left_out.push(item.index));
    let done = with.range(0..1000, 50, |start, end| {
        let size: usize = (start..end).map(costs).sum();
        let memory = device.alloc(10_000 + 1000 * size as u64)?;
        sizes.push(size);
        drop(memory);
        Ok::<(), toma::testing::FakeOutOfMemory>(())
    });
    done.unwrap();
    assert_eq!(left_out, [500]);
    assert_eq!(sizes.iter().sum::<usize>(), 999);
    assert!(sizes.iter().rev().skip(1).take(5).all(|&size| size == 50), "{sizes:?}");
}

/// A large device has more bytes than 32 bits can count.
#[test]
#[cfg(target_pointer_width = "64")]
fn the_unit_of_costs_changes_nothing() {
    let tried = |unit: usize, policy: &dyn Policy| {
        let (device, clock, mut tried) =
            (FakeDevice::new(1000 * unit as u64), StoppedClock::new(), Vec::new());
        let with = execute::with::<NoCache>().policy(policy).device(&device).by_cost(|_| unit);
        let done = with.range(0..20_000, 8000 * unit, |start, end| {
            let memory = device.alloc(((end - start) * unit) as u64);
            clock.advance(Duration::from_millis(10 + (end - start) as u64));
            tried.push((end - start, memory.is_ok()));
            memory.map(drop)
        });
        done.unwrap();
        tried
    };
    for policy in [&Adaptive::default() as &dyn Policy, &Throughput::default()] {
        assert_eq!(tried(1, policy), tried(1 << 30, policy), "{policy:?}");
    }
}
