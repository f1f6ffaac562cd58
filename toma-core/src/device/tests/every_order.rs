//! Three participants in every order in which their steps can happen.

use std::collections::HashSet;

use super::world::{Beside, Participant, World};
use crate::device::queue::TurnKind::{Exclusive, Shared};

/// Returns the number of different situations.
fn explore(participants: [Participant; 3], beside: Beside, all_succeed: bool) -> usize {
    let (mut seen, mut open) = (HashSet::new(), vec![World::new(participants, beside)]);
    while let Some(world) = open.pop() {
        assert!(!all_succeed || world.all_succeed(), "one gives up: {world:#?}");
        for next in world.moves() {
            let mut after = world.clone();
            after.apply(next);
            if seen.insert(after.situation()) {
                open.push(after);
            }
        }
    }
    seen.len()
}

/// Explores all groups of three, whatever their order.
fn explore_all(works: &[Participant], all_succeed: bool) {
    let all = 0..works.len();
    let threes =
        all.flat_map(|one| (0..=one).flat_map(move |two| (0..=two).map(move |three| [one, two, three])));
    let threes = threes.map(|three| three.map(|at| works[at].clone()));
    let situations: usize = threes.map(|three| explore(three, Beside::Nothing, all_succeed)).sum();
    assert!(situations > 20_000, "{situations}");
}

fn explore_disturbed(beside: Beside) {
    let plain = || Participant::new(Some(Shared), &[4]);
    let nested = || Participant::new(Some(Shared), &[3, 3]);
    let works = [[plain(), plain(), nested()], [plain(), nested(), nested()]];
    let situations: usize = works.map(|three| explore(three, beside, false)).iter().sum();
    assert!(situations > 5_000, "{situations}");
}

#[test]
fn on_one_device_all_that_fit_succeed() {
    // The loops of each participant together hold at most the bytes of the device.
    let holds: [&[u8]; 4] = [&[4], &[3, 3], &[2, 4], &[2, 2, 2]];
    let mut works = holds.map(|holds| Participant::new(Some(Shared), holds)).to_vec();
    works.push(Participant::new(Some(Exclusive), &[1, 5]));
    explore_all(&works, true);
}

/// Calls that never wait are, for example, those inside turns on another device.
#[test]
fn beside_those_that_never_wait_all_end() {
    let waiting = [&[4][..], &[3, 3]].map(|holds| Participant::new(Some(Shared), holds));
    let beside = [&[4][..], &[1, 4]].map(|holds| Participant::new(None, holds));
    explore_all(&[waiting, beside].concat(), false);
}

#[test]
fn with_bounds() {
    explore_disturbed(Beside::Bounds);
}

#[test]
fn with_waits_that_are_cancelled() {
    explore_disturbed(Beside::Cancels);
}

#[test]
fn dropped_at_every_await() {
    explore_disturbed(Beside::Drops);
}
