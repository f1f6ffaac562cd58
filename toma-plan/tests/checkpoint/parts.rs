//! Bytes of a stage that are held for a part of the time, or by the program as well.

use toma_plan::checkpoint::{Action, Costs, Solver, Stage, simulate};

fn save(stage: usize) -> Action {
    Action::Save { stage, way: 0, holds_input: true }
}

fn peak(costs: &Costs, actions: &[Action]) -> u64 {
    simulate(costs, actions).unwrap().peak_bytes
}

/// Three stages, of which backward needs 2 bytes each, with outputs of 4 bytes that it does not need.
fn idle() -> Costs {
    let stage = Stage { forward_seconds: 1.0, output_bytes: 4, saved_bytes: 6, ..Stage::default() };
    let between = Stage { idle_bytes: 4, ..stage.clone() };
    Costs::new([between.clone(), between, stage].map(Stage::repeated_alike).into()).unwrap()
}

#[test]
fn an_idle_output_is_gone_once_the_next_stage_has_run() {
    let costs = idle();
    // The last stage runs with the output of the one before it, but without that of the first.
    assert_eq!(costs.keep_all_bytes(), 2 + 6 + 6);
    let plan = costs.plan(14, Solver::Auto).unwrap();
    assert_eq!((plan.repeats().sum::<usize>(), plan.bound_seconds()), (0, plan.seconds()));
}

#[test]
fn an_idle_output_stays_for_a_repeat() {
    let first = [save(0), Action::Keep(1), save(2), Action::Backward(2)];
    let actions = [&first[..], &[save(1), Action::Backward(1), Action::Backward(0)]].concat();
    // The output of the first stage stays, and that of the second is there until the last one has run.
    assert_eq!(peak(&idle(), &actions), 6 + 4 + 6);
}

/// The peak of backward comes without the idle output.
#[test]
fn an_idle_output_is_gone_in_backward() {
    let stage = Stage { output_bytes: 4, saved_bytes: 6, idle_bytes: 4, ..Stage::default() };
    let stage = Stage { backward_peak_bytes: 5, ..stage };
    let costs = Costs::new(vec![stage]).unwrap();
    assert_eq!((costs.keep_all_bytes(), costs.least_bytes()), (2 + 5, 2 + 5));
}

/// Four stages whose outputs the program holds until the last one has run. The peaks of later first runs include them.
fn of_program() -> Costs {
    let stage = Stage { output_bytes: 4, saved_bytes: 4, program_bytes: 4, ..Stage::default() };
    let with = |saving_peak_bytes| Stage { saving_peak_bytes, ..stage.clone() };
    Costs::new([0, 0, 4, 8].map(with).into()).unwrap()
}

#[test]
fn bytes_that_the_program_holds_as_well_count_once() {
    assert_eq!(of_program().keep_all_bytes(), 4 * 4);
}

#[test]
fn bytes_that_only_the_program_holds_count_as_well() {
    let alone = Action::Save { stage: 1, way: 0, holds_input: false };
    let first = [Action::Drop(0), alone, save(2), save(3), Action::Backward(3), Action::Backward(2)];
    let actions = [&first[..], &[save(0), Action::Backward(1), Action::Backward(0)]].concat();
    assert_eq!(peak(&of_program(), &actions), 4 + 3 * 4);
}
