//! Steps of plans, as a program executes them.

use std::cell::Cell;

use proptest::prelude::any as anything;
use proptest::prop_assert;
use proptest::sample::Index;

use toma_plan::checkpoint::recording::Step;
use toma_plan::checkpoint::{Action, Costs, Solver};

use crate::chains::any;
use crate::rounds::rounds;
use crate::runner;

/// Boundaries that are held while steps are executed, and stages that are saved.
struct Executed {
    holds: Vec<bool>,
    saved: Vec<bool>,
    /// Stages that are saved with their input.
    with_input: Vec<bool>,
}

impl Executed {
    /// The first run takes its input from the program.
    fn first_run(&mut self, step: Step) {
        let stage = step.stage as usize;
        if step.kind == Step::KEEP && stage > 0 {
            self.holds[stage - 1] = true;
        }
        self.holds[stage] = step.holds_output;
        self.save(step);
    }

    fn save(&mut self, step: Step) {
        let stage = step.stage as usize;
        self.saved[stage] |= [Step::SAVE, Step::SAVE_ALONE].contains(&step.kind);
        self.with_input[stage] |= step.kind == Step::SAVE;
    }

    /// Returns true if the input is there.
    fn later(&mut self, step: Step) -> bool {
        let stage = step.stage as usize;
        let input = stage.checked_sub(1);
        let has_input = input.is_none_or(|input| self.holds[input]);
        if step.kind == Step::BACKWARD {
            let has_input = has_input || input.is_some_and(|input| self.saved[input]);
            let is_ready = self.saved[stage] && (has_input || self.with_input[stage]);
            (self.saved[stage], self.holds[stage]) = (false, false);
            return is_ready;
        }
        self.holds[stage] |= step.holds_output;
        self.save(step);
        if let Some(input) = input.filter(|input| !self.saved[*input] && step.kind != Step::SAVE) {
            self.holds[input] = step.kind == Step::KEEP;
        }
        has_input || step.kind == Step::KEEP
    }
}

#[test]
fn every_step_of_a_plan_finds_its_input() {
    let repeats = Cell::new(0);
    // Two places are drawn for each budget, of which the lower one repeats more.
    let holds = |(costs, one, other): (Costs, Index, Index)| {
        let [least, all] = [costs.least_bytes(), costs.keep_all_bytes()];
        let place = |at: Index| at.index(usize::try_from(all - least + 1).unwrap()) as u64;
        let budget = least + place(one).min(place(other));
        let plan = costs.plan(budget, Solver::Auto).unwrap();
        let count = plan.stages();
        let steps = Step::all(plan.actions(), count);
        let none = || vec![false; count];
        let mut executed = Executed { holds: none(), saved: none(), with_input: none() };
        steps[..count].iter().for_each(|step| executed.first_run(*step));
        for step in &steps[count..] {
            prop_assert!(executed.later(*step), "{:?} of {:?}", step, plan.actions());
        }
        repeats.set(repeats.get() + plan.repeats().sum::<usize>());
        Ok(())
    };
    let cases = rounds(300, 5_000);
    runner(cases).run(&(any(1..=8), anything::<Index>(), anything::<Index>()), holds).unwrap();
    assert!(repeats.get() > cases as usize);
}

#[test]
fn a_step_holds_its_output_for_a_later_run_alone() {
    let save = |stage| Action::Save { stage, way: 0, holds_input: true };
    let first = [save(0), Action::Keep(1), Action::Drop(2)];
    let later =
        [Action::Drop(1), save(2), Action::Backward(2), save(1), Action::Backward(1), Action::Backward(0)];
    let steps = Step::all(&[&first[..], &later].concat(), 3);
    let held: Vec<_> = steps.iter().map(|step| step.holds_output).collect();
    assert_eq!(held[..7], [true, false, false, true, false, true, false]);
    assert_eq!(steps[4], Step { kind: Step::SAVE, stage: 2, holds_output: false });
}
