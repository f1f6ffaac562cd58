//! Properties of every plan of random chains of all kinds.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any as anything};
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};

use toma_plan::checkpoint::{Action, Costs, Plan, Solver, simulate};

use crate::chains::any;
use crate::rounds::rounds;
use crate::{runner, twin};

fn follows_twin(costs: &Costs, plan: &Plan) -> Result<(), TestCaseError> {
    let reported =
        twin::simulate(costs, plan.actions()).map_err(|index| TestCaseError::fail(index.to_string()))?;
    prop_assert_eq!(plan.peak_bytes(), reported.peak_bytes);
    prop_assert_eq!(plan.seconds(), reported.seconds);
    prop_assert_eq!(plan.repeats().map(|repeats| repeats + 1).collect::<Vec<_>>(), reported.runs);
    Ok(())
}

/// Returns the time of a solver's plan; infinite if nothing fits.
fn seconds(costs: &Costs, budget: u64, solver: Solver) -> Result<f64, TestCaseError> {
    let keep_all = costs.keep_all_bytes();
    match costs.plan(budget, solver) {
        Ok(plan) => {
            follows_twin(costs, &plan)?;
            prop_assert!(plan.peak_bytes() <= budget);
            prop_assert!(plan.bound_seconds() <= plan.seconds());
            prop_assert_eq!(plan.solver(), Some(solver));
            if keep_all <= budget && solver != Solver::SqrtN {
                prop_assert_eq!(plan.peak_bytes(), keep_all);
                prop_assert_eq!(plan.repeats().sum::<usize>(), 0);
            }
            Ok(plan.seconds())
        }
        Err(error) => {
            prop_assert!(budget < error.least_bytes);
            prop_assert_eq!((error.budget_bytes, error.solver), (budget, solver));
            prop_assert!(error.stage < costs.stages().len());
            // A budget of the reported least bytes has a plan.
            prop_assert_eq!(
                costs.plan(error.least_bytes, solver).map(|plan| plan.peak_bytes() <= error.least_bytes),
                Ok(true)
            );
            match solver {
                Solver::KeepAll => prop_assert_eq!(error.least_bytes, keep_all),
                Solver::SqrtN => {}
                _ => prop_assert_eq!(error.least_bytes, costs.least_bytes()),
            }
            Ok(f64::INFINITY)
        }
    }
}

#[test]
fn plans_of_all_solvers_fit_and_have_their_figures() {
    let reached = Cell::new([0; 3]);
    let holds = |(costs, at, scale): (Costs, Index, u64)| {
        let costs = scaled(&costs, scale);
        let most = costs.keep_all_bytes().max(costs.plan(u64::MAX, Solver::SqrtN).unwrap().peak_bytes());
        let budget = at.index(usize::try_from(most + 2).unwrap()) as u64;
        let [keep_all, sqrt_n, rotor, auto] = Solver::ALL.map(|solver| seconds(&costs, budget, solver));
        let [keep_all, sqrt_n, rotor, auto] = [keep_all?, sqrt_n?, rotor?, auto?];
        prop_assert!(auto <= rotor && rotor <= sqrt_n && rotor <= keep_all);
        prop_assert_eq!(rotor.is_finite(), budget >= costs.least_bytes());
        let [none, better, repeats] = reached.get();
        let repeats = repeats + u64::from(rotor.is_finite() && keep_all.is_infinite());
        reached.set([none + u64::from(rotor.is_infinite()), better + u64::from(auto < rotor), repeats]);
        Ok(())
    };
    // Scaled chains have more bytes than a table has slots.
    let scale = (0..=2_u32).prop_map(|zeros| 997_u64.pow(zeros));
    let cases = rounds(1_000, 10_000);
    runner(cases).run(&(any(1..=8), anything::<Index>(), scale), holds).unwrap();
    // Cases in which nothing fits, in which the local search helps, and in which stages are recomputed.
    assert!(reached.get().into_iter().all(|times| times > u64::from(cases) * 3 / 100), "{:?}", reached.get());
}

#[test]
fn a_plan_goes_on_after_any_first_runs() {
    let most = Cell::new(0);
    let holds = |(costs, at, kinds): (Costs, Index, Vec<u8>)| {
        let [least, all] = [costs.least_bytes(), costs.keep_all_bytes()];
        let budget = least + at.index(usize::try_from(all - least + 1).unwrap()) as u64;
        let plan = costs.plan(budget, Solver::Rotor).unwrap();
        let first: Vec<_> = costs
            .stages()
            .iter()
            .zip(kinds)
            .enumerate()
            .map(|(stage, (cost, kind))| match kind {
                0 if !cost.must_save => Action::Drop(stage),
                1 if !cost.must_save => Action::Keep(stage),
                _ => Action::Save { stage, way: 0, holds_input: kind != 3 },
            })
            .collect();
        let after = plan.after(&costs, &first).unwrap();
        follows_twin(&costs, &after)?;
        prop_assert!(after.actions().starts_with(&first));
        // No change is needed if the run has begun as planned.
        let own = plan.after(&costs, &plan.actions()[..first.len()]).unwrap();
        prop_assert_eq!(own.actions(), plan.actions());
        most.set(most.get().max(after.repeats().sum::<usize>()));
        Ok(())
    };
    runner(3_000).run(&(any(1..=8), anything::<Index>(), vec(0..=3_u8, 0..8)), holds).unwrap();
    assert!(most.get() > 7, "{} repeats", most.get());
}

fn scaled(costs: &Costs, scale: u64) -> Costs {
    let mut stages = costs.stages().to_vec();
    for stage in &mut stages {
        let of_ways = stage.savings.iter_mut().flat_map(|it| {
            [
                &mut it.saved_bytes,
                &mut it.saving_peak_bytes,
                &mut it.repeat_saving_peak_bytes,
                &mut it.backward_peak_bytes,
            ]
        });
        let of_stage = [
            &mut stage.output_bytes,
            &mut stage.saved_bytes,
            &mut stage.passing_bytes,
            &mut stage.idle_bytes,
            &mut stage.program_bytes,
            &mut stage.gradient_bytes,
            &mut stage.forward_peak_bytes,
            &mut stage.saving_peak_bytes,
            &mut stage.repeat_peak_bytes,
            &mut stage.repeat_saving_peak_bytes,
            &mut stage.backward_peak_bytes,
            &mut stage.variable_gradient_bytes,
        ];
        of_ways.chain(of_stage).for_each(|bytes| *bytes *= scale);
    }
    Costs::new(stages).unwrap().with_input_gradient(costs.input_gradient_bytes() * scale).unwrap()
}

#[test]
fn plans_fit_at_every_budget_from_the_least_on() {
    let holds = |costs: Costs| {
        let least = costs.least_bytes();
        for budget in least..=costs.keep_all_bytes() {
            prop_assert!(costs.plan(budget, Solver::Rotor).is_ok_and(|plan| plan.peak_bytes() <= budget));
        }
        prop_assert!(least.checked_sub(1).is_none_or(|budget| costs.plan(budget, Solver::Auto).is_err()));
        let curve = costs.curve();
        prop_assert!(curve.is_sorted_by(|a, b| a.bytes < b.bytes && a.seconds > b.seconds));
        prop_assert!(curve.iter().all(|point| point.bound_seconds <= point.seconds));
        prop_assert!(curve[0].bytes <= least);
        prop_assert_eq!(curve.last().map(|point| point.seconds), Some(costs.keep_all_seconds()));
        Ok(())
    };
    runner(rounds(60, 1000)).run(&any(1..=8), holds).unwrap();
}

/// A change of a list of actions.
type Change = (Index, Index, u8);

fn changed(mut actions: Vec<Action>, changes: Vec<Change>, stages: usize) -> Vec<Action> {
    for (at, other, kind) in changes {
        let stage = other.index(stages + 1);
        let new = match kind {
            0 => Action::Drop(stage),
            1 => Action::Keep(stage),
            2 | 3 => Action::Save { stage, way: usize::from(kind - 2), holds_input: true },
            4 => Action::Save { stage, way: 0, holds_input: false },
            _ => Action::Backward(stage),
        };
        match kind % 4 {
            0 => actions.insert(at.index(actions.len() + 1), new),
            _ if actions.is_empty() => {}
            1 => drop(actions.remove(at.index(actions.len()))),
            2 => {
                let (a, b) = (at.index(actions.len()), other.index(actions.len()));
                actions.swap(a, b);
            }
            _ => {
                let at = at.index(actions.len());
                actions[at] = new;
            }
        }
    }
    actions
}

#[test]
fn the_simulator_judges_any_list_as_its_twin_does() {
    let reached = Cell::new([0; 2]);
    let change = (anything::<Index>(), anything::<Index>(), 0..=7_u8);
    let cases = (any(1..=5), anything::<Index>(), anything::<Index>(), vec(change, 0..=3));
    let holds = |(costs, at, solver, changes): (Costs, Index, Index, Vec<Change>)| {
        let solver = Solver::ALL[solver.index(Solver::ALL.len())];
        let budget = costs.least_bytes() + at.index(40) as u64;
        let plan = costs.plan(budget, solver).or_else(|_| costs.plan(budget, Solver::Auto)).unwrap();
        let actions = changed(plan.actions().to_vec(), changes, costs.stages().len());
        let reported = twin::simulate(&costs, &actions);
        let [legal, illegal] = reached.get();
        reached.set([legal + u64::from(reported.is_ok()), illegal + u64::from(reported.is_err())]);
        match (simulate(&costs, &actions), reported) {
            (Ok(simulated), Ok(reported)) => {
                prop_assert_eq!(simulated.peak_bytes, reported.peak_bytes);
                prop_assert_eq!(simulated.seconds, reported.seconds);
                prop_assert_eq!(simulated.runs, reported.runs);
            }
            (Err(illegal), Err(index)) => {
                prop_assert_eq!(illegal.index, index);
                prop_assert_eq!(illegal.action, actions.get(index).copied());
            }
            (simulated, reported) => prop_assert!(false, "{:?}, but {:?}", simulated, reported),
        }
        Ok(())
    };
    runner(20_000).run(&cases, holds).unwrap();
    assert!(reached.get().into_iter().all(|times| times > 2000), "{:?}", reached.get());
}
