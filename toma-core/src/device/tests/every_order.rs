//! Three participants in every order in which their steps can happen.

use std::collections::HashSet;

use super::world::{Level, Move, Plan, World};

const fn level(pieces: u8, holds: u8, device: usize) -> Level {
    Level { device: Some(device), pieces, holds, reserves: 0, swallows: false }
}

/// What each needs at most, together in its loops, is the budget of a device or less.
const ON_ONE_DEVICE: &[&[Level]] = &[
    &[level(2, 4, 0)],
    &[level(1, 3, 0), level(1, 3, 0)],
    &[Level { swallows: true, ..level(1, 2, 0) }, level(1, 4, 0)],
    &[Level { device: None, ..level(1, 0, 0) }, level(1, 5, 0)],
    &[level(1, 2, 0), level(1, 2, 0), level(1, 2, 0)],
];

/// Where more can happen than steps.
const DISTURBED: &[[&[Level]; 3]] = &[[PLAIN, PLAIN, NESTED], [PLAIN, NESTED, NESTED]];
const PLAIN: &[Level] = &[level(1, 4, 0)];
const NESTED: &[Level] = &[level(1, 3, 0), level(1, 3, 0)];

const ON_TWO_DEVICES: &[&[Level]] = &[
    &[level(2, 4, 0)],
    &[level(1, 3, 0), level(1, 4, 1)],
    &[level(1, 3, 1), level(1, 4, 0)],
    &[level(1, 1, 0), level(1, 1, 0), level(1, 4, 1)],
];

/// What happens beside the steps of the participants.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nothing,
    Bounds,
    Cancels,
    Drops,
}

impl Beside {
    fn moves(self, world: &World) -> Vec<Move> {
        let mut moves: Vec<_> = (0..3).filter(|&of| world.can_step(of)).map(Move::Step).collect();
        let waiting = (0..3).filter(|&of| world.waits(of));
        match self {
            Self::Bounds if world.now < 2 && world.has_alarm() => moves.push(Move::Tick),
            Self::Nothing | Self::Bounds => {}
            Self::Cancels => moves.extend(waiting.filter(|&of| !world.is_cancelled(of)).map(Move::Cancel)),
            Self::Drops => moves.extend((0..3).filter(|&of| !world.is_done(of)).map(Move::Drop)),
        }
        moves
    }
}

/// Returns how many different situations there were.
fn explore(first: World, beside: Beside, all_succeed: bool) -> usize {
    let mut seen = HashSet::new();
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        let moves = beside.moves(&world);
        assert!(world.is_over() || !moves.is_empty(), "none can go on: {world:#?}");
        assert!(!all_succeed || (0..3).all(|of| !world.gave_up(of)), "one gives up: {world:#?}");
        for next in moves {
            let mut after = world.clone();
            after.apply(next);
            if seen.insert(after.situation()) {
                open.push(after);
            }
        }
    }
    seen.len()
}

fn explore_all(works: &[[&[Level]; 3]], beside: Beside, all_succeed: bool) {
    let bound = Some(if beside == Beside::Bounds { 1 } else { u8::MAX });
    let situations = works.iter().map(|works| {
        let plans = works.map(|levels| Plan { levels: levels.to_vec(), bound });
        explore(World::new(2, plans), beside, all_succeed)
    });
    let situations: usize = situations.sum();
    assert!(situations > 10_000, "{situations}");
    println!("{beside:?}: {situations}");
}

/// All groups of three, whatever their order.
fn threes<'w>(works: &[&'w [Level]]) -> Vec<[&'w [Level]; 3]> {
    let all = 0..works.len();
    let threes =
        all.flat_map(|one| (0..=one).flat_map(move |two| (0..=two).map(move |three| [one, two, three])));
    threes.map(|three| three.map(|at| works[at])).collect()
}

#[test]
fn on_one_device_all_that_fit_succeed() {
    explore_all(&threes(ON_ONE_DEVICE), Beside::Nothing, true);
}

#[test]
fn on_two_devices_all_end() {
    explore_all(&threes(ON_TWO_DEVICES), Beside::Nothing, false);
}

#[test]
fn with_bounds() {
    explore_all(DISTURBED, Beside::Bounds, false);
}

#[test]
fn with_waits_that_are_cancelled() {
    explore_all(DISTURBED, Beside::Cancels, false);
}

#[test]
fn dropped_at_every_await() {
    explore_all(DISTURBED, Beside::Drops, false);
}
