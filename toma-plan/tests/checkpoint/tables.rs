//! Figures that were worked out elsewhere, for given chains.

use toma_plan::checkpoint::{Action, Costs, Plan, Point, Solver};

use crate::chains::{revolve, tanh};
use crate::percent_more;
use crate::resnet::{Grain, Inside, resnet152};
use crate::rounds::rounds;

const MIB: u64 = 1 << 20;

/// Budgets in MiB, and the percent of time beyond keeping all: of rotor and of the bound, then of both with stages
/// saved in parts.
const TABLE: [(u64, [f64; 4]); 8] = [
    (400, [32.2, 25.9, 29.5, 23.1]),
    (500, [27.8, 24.2, 24.2, 20.7]),
    (600, [25.3, 22.3, 20.6, 18.3]),
    (700, [23.1, 20.9, 17.7, 15.9]),
    (826, [20.2, 19.0, 14.2, 13.0]),
    (1000, [17.1, 15.8, 11.4, 10.8]),
    (1340, [11.3, 10.2, 7.1, 6.6]),
    (2000, [4.0, 3.4, 1.4, 1.1]),
];

fn reported(costs: &Costs, mib: u64, solver: Solver) -> (f64, f64) {
    let plan = costs.plan(mib * MIB, solver).unwrap();
    assert!(plan.peak_bytes() <= mib * MIB);
    (percent_more(&plan, plan.seconds()), percent_more(&plan, plan.bound_seconds()))
}

/// Equal but for the rounding of a decimal.
fn is_near(percent: f64, expected: f64) -> bool {
    (percent - expected).abs() < 0.06
}

#[test]
fn resnet_152_takes_the_times_of_the_table() {
    let [whole, parts] = [Inside::Whole, Inside::Parts].map(|inside| resnet152(inside, Grain::TwoMib));
    for (mib, expected) in TABLE {
        let [whole, parts] = [&whole, &parts].map(|costs| reported(costs, mib, Solver::Rotor));
        let percent = [whole.0, whole.1, parts.0, parts.1];
        assert!(percent.iter().zip(expected).all(|(a, b)| is_near(*a, b)), "{mib} MiB: {percent:?}");
    }
    assert_eq!(whole.keep_all_bytes(), 2754 * MIB);
    // Ways to save that cost no time leave out activations that backward does not need.
    let plan = parts.plan(2312 * MIB, Solver::Rotor).unwrap();
    assert!(percent_more(&plan, plan.seconds()) < 1e-9, "{plan}");
    let plan = parts.plan(2311 * MIB, Solver::Rotor).unwrap();
    assert!(percent_more(&plan, plan.seconds()) > 0.01, "{plan}");
    assert_eq!(parts.plan(1000 * MIB, Solver::Rotor).unwrap().peak_bytes(), 998 * MIB);
}

#[test]
fn resnet_152_keeps_the_promised_times() {
    for grain in [Grain::Byte, Grain::TwoMib] {
        for solver in [Solver::Rotor, Solver::Auto] {
            for (inside, mib, at_most) in [
                (Inside::Whole, 826, 20.3),
                (Inside::Parts, 826, 14.5),
                (Inside::Whole, 400, 32.2),
                (Inside::Parts, 400, 29.6),
            ] {
                let (percent, bound) = reported(&resnet152(inside, grain), mib, solver);
                assert!(bound <= percent && percent <= at_most, "{inside:?} {mib} {solver}: {percent}");
            }
        }
    }
}

#[test]
fn auto_is_faster_than_rotor_on_resnet_152() {
    let costs = resnet152(Inside::Whole, Grain::TwoMib);
    for (mib, at_most) in [(600, 24.9), (700, 22.4), (826, 19.7), (1000, 16.7), (2000, 3.6)] {
        let (percent, bound) = reported(&costs, mib, Solver::Auto);
        assert!(bound <= percent && percent <= at_most, "{mib} MiB: {percent}");
    }
}

#[test]
fn the_curve_of_resnet_152_goes_from_the_least_bytes_to_no_repeats() {
    for (inside, most) in [(Inside::Parts, 2312), (Inside::Whole, 2754)].into_iter().take(rounds(1, 2)) {
        let costs = resnet152(inside, Grain::TwoMib);
        let curve = costs.curve();
        assert!(curve.len() >= 50, "{}", curve.len());
        assert!(curve.is_sorted_by(|a, b| a.bytes < b.bytes && a.seconds > b.seconds), "{curve:?}");
        assert!(curve.iter().all(|point| point.bound_seconds <= point.seconds), "{curve:?}");
        assert!(curve[0].bytes <= costs.least_bytes());
        let Some(Point { bytes, seconds, .. }) = curve.last() else { unreachable!() };
        assert!(*bytes <= most * MIB && (seconds / costs.keep_all_seconds() - 1.0).abs() < 1e-12);
        // The curve uses the slots of the largest budget, so a plan may be slower because its bytes are rounded up.
        for (mib, [rotor, _, parts, _]) in TABLE {
            let percent = if inside == Inside::Whole { rotor } else { parts };
            let within = curve.iter().rev().find(|point| point.bytes <= mib * MIB).unwrap();
            assert!(
                (within.seconds / costs.keep_all_seconds() - 1.0) * 100.0 <= percent + 0.9,
                "{mib}: {within:?}"
            );
        }
    }
}

/// Runs segments a second time, except segments of one stage, which are saved.
fn segments(counts: &[usize]) -> Vec<Action> {
    let save = |stage| Action::Save { stage, way: 0, holds_input: true };
    let starts: Vec<_> = counts
        .iter()
        .scan(0, |next, &count| {
            let start = *next;
            *next += count;
            Some((start, count))
        })
        .collect();
    let first = starts.iter().flat_map(|&(start, count)| {
        let run = move |stage| if stage == start { Action::Keep(stage) } else { Action::Drop(stage) };
        (start..start + count).map(move |stage| if count == 1 { save(stage) } else { run(stage) })
    });
    let mut actions: Vec<_> = first.collect();
    for &(start, count) in starts.iter().rev() {
        if count > 1 {
            actions.extend((start..start + count).map(save));
        }
        actions.extend((start..start + count).rev().map(Action::Backward));
    }
    actions
}

#[test]
fn the_cut_of_memonger_takes_its_bytes_and_time() {
    let costs = resnet152(Inside::Whole, Grain::TwoMib);
    let counts = [1, 3, 4, 4, 6, 6, 6, 6, 6, 6, 3, 1];
    let plan = Plan::new(&costs, segments(&counts)).unwrap();
    assert_eq!(plan.peak_bytes(), 826 * MIB);
    assert!(is_near(percent_more(&plan, plan.seconds()), 33.0), "{plan}");
    assert_eq!(plan.solver(), None);
}

#[test]
fn sqrt_n_is_the_partition_of_memonger() {
    for (count, expected) in [
        (1, vec![1]),
        (2, vec![2]),
        (3, vec![3]),
        (4, vec![2, 2]),
        (11, vec![3, 3, 5]),
        (16, vec![4; 4]),
        (52, vec![7, 7, 7, 7, 7, 7, 10]),
    ] {
        let plan = tanh(count).plan(u64::MAX, Solver::SqrtN).unwrap();
        assert!(plan.repeats().all(|repeats| repeats == 1));
        let keeps = plan.actions()[..count].iter().filter_map(|action| match action {
            Action::Keep(stage) => Some(*stage),
            _ => None,
        });
        let starts: Vec<_> = keeps.chain([count]).collect();
        let counts: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(counts, expected, "{count} stages");
    }
}

/// Extra runs of Revolve for `l` stages and `c` checkpoints, in closed form.
fn extra_runs(l: u128, c: u128) -> u128 {
    let choose = |n: u128, k: u128| (0..k).fold(1, |product, i| product * (n - i) / (i + 1));
    let r = (0..l).find(|r| choose(c + r, c) >= l).unwrap();
    if r == 0 { 0 } else { r * l - choose(c + r, r - 1) }
}

#[test]
fn rotor_repeats_as_often_as_revolve() {
    assert_eq!([(10, 2), (24, 3), (64, 4)].map(|(l, c)| extra_runs(l, c)), [20, 61, 200]);
    for length in (1..=64_u16).step_by(rounds(3, 1)) {
        for checkpoints in 1..=8_u16 {
            let plan = revolve(length.into()).plan(1000 + u64::from(checkpoints), Solver::Rotor).unwrap();
            let repeats = plan.repeats().sum::<usize>() as u128;
            assert_eq!(repeats, extra_runs(length.into(), checkpoints.into()), "{length}, {checkpoints}");
        }
    }
}

#[test]
fn chains_of_tanh_take_the_known_bytes() {
    for count in [3, 5, 100] {
        assert_eq!(tanh(count).keep_all_bytes(), count as u64);
    }
    // Of five outputs the second and the fourth are held.
    let run = |stage| if [2, 4].contains(&stage) { Action::Keep(stage) } else { Action::Drop(stage) };
    let save = |stage| Action::Save { stage, way: 0, holds_input: true };
    let first = (0..4).map(run).chain([save(4), Action::Backward(4)]);
    let second = [Action::Keep(2), save(3), Action::Backward(3), save(2), Action::Backward(2)];
    let third = [save(0), save(1), Action::Backward(1), Action::Backward(0)];
    let plan = Plan::new(&tanh(5), first.chain(second).chain(third).collect()).unwrap();
    assert!(plan.peak_bytes() <= 4, "{}", plan.peak_bytes());

    // A hundred nodes in 20 slots, as with cuts at every tenth: each runs twice at most, and some once.
    let costs = tanh(100);
    assert_eq!(costs.plan(20, Solver::SqrtN).unwrap().peak_bytes(), 20);
    for solver in [Solver::Rotor, Solver::Auto] {
        let plan = costs.plan(20, solver).unwrap();
        assert!(plan.repeats().sum::<usize>() < 100, "{plan}");
    }
}
