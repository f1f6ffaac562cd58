//! Every legal plan computes the same bits.

use toma_torch::checkpoint::{self, Action, Costs, Plan};

use crate::kit::alone;
use crate::nets;
use crate::rounds::rounds;

/// A list of actions while it is drawn, and the stages that it holds so far.
struct Drawn<'a> {
    random: &'a mut fastrand::Rng,
    actions: Vec<Action>,
    /// Stages of which only the output is held.
    held: Vec<bool>,
    saved: Vec<bool>,
}

impl Drawn<'_> {
    fn has(&self, stage: usize) -> bool {
        self.held[stage] || self.saved[stage]
    }

    fn run(&mut self, stage: usize, must_save: bool) {
        let choice = if must_save { 0 } else { self.random.u32(0..3) };
        let action = match choice {
            0 => Action::Save { stage, way: 0, holds_input: true },
            1 => Action::Keep(stage),
            _ => Action::Drop(stage),
        };
        match action {
            Action::Save { .. } => self.saved[stage] = true,
            _ => self.held[stage] = true,
        }
        if let (Action::Drop(_), Some(input)) = (action, stage.checked_sub(1)) {
            self.held[input] = false;
        }
        self.actions.push(action);
    }

    /// Runs every stage from the last one that is held up to `target`.
    fn reach(&mut self, target: usize, must_save: bool) {
        let first = (0..target).rev().find(|&stage| self.has(stage)).map_or(0, |stage| stage + 1);
        for stage in first..=target {
            self.run(stage, must_save && stage == target);
        }
    }

    fn backward(&mut self, stage: usize) {
        while !self.saved[stage] {
            self.reach(stage, true);
        }
        while stage > 0 && !self.has(stage - 1) {
            self.reach(stage - 1, false);
        }
        self.actions.push(Action::Backward(stage));
        (self.held[stage], self.saved[stage]) = (false, false);
    }
}

/// Draws a list of actions, most of which are legal.
fn draw(costs: &Costs, random: &mut fastrand::Rng) -> Vec<Action> {
    let count = costs.stages().len();
    let mut drawn =
        Drawn { random, actions: Vec::new(), held: vec![false; count], saved: vec![false; count] };
    (0..count).for_each(|stage| drawn.run(stage, false));
    (0..count).rev().for_each(|stage| drawn.backward(stage));
    drawn.actions
}

#[test]
fn random_legal_plans_compute_the_bits_of_the_plain_run() {
    let _alone = alone();
    let net = nets::small();
    let expected = net.plain();
    let form = checkpoint::with().name("random plans");
    let costs = form.measure(&*net.forward).unwrap();
    assert_eq!(costs.stages().len(), 6);
    let mut generator = fastrand::Rng::with_seed(12);
    let (mut legal, enough) = (0, rounds(750, 10_000));
    for _ in 0..2 * enough {
        let actions = draw(&costs, &mut generator);
        let Ok(plan) = Plan::new(&costs, actions) else { continue };
        assert_eq!(net.step(|forward| form.plan(&plan).region(forward)), expected, "{plan}");
        let repeats: Vec<_> =
            checkpoint::last().unwrap().repeats().into_iter().map(|count| count as usize).collect();
        assert_eq!(repeats, plan.repeats().collect::<Vec<_>>(), "{:?}", plan.actions());
        legal += 1;
        if legal == enough {
            return;
        }
    }
    panic!("only {legal} plans were legal");
}
