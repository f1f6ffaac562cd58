//! Each reason for which a list of actions is refused.

use toma_plan::checkpoint::{Action, Costs, Illegal, Plan, Reason, Stage, simulate};

use Action::{Backward, Drop, Keep};

fn save(stage: usize) -> Action {
    Action::Save { stage, way: 0, holds_input: true }
}

/// Three stages, of which the second cannot be recomputed.
fn costs() -> Costs {
    let stage = Stage { output_bytes: 1, saved_bytes: 2, ..Stage::default() };
    Costs::new(vec![stage.clone(), Stage { must_save: true, ..stage.clone() }, stage]).unwrap()
}

fn refused(actions: &[Action]) -> (usize, Reason) {
    let illegal = simulate(&costs(), actions).unwrap_err();
    assert_eq!(Plan::new(&costs(), actions.to_vec()), Err(illegal));
    assert_eq!(illegal.action, actions.get(illegal.index).copied());
    (illegal.index, illegal.reason)
}

#[test]
fn every_reason_is_reported_with_its_position() {
    let saved = [save(0), save(1), save(2)];
    let then = |more: &[Action]| refused(&[&saved[..], more].concat());
    for (reported, index, reason) in [
        (refused(&[Drop(3)]), 0, Reason::NoSuchStage { count: 3 }),
        (refused(&[Backward(7)]), 0, Reason::NoSuchStage { count: 3 }),
        (refused(&[Action::Save { stage: 0, way: 1, holds_input: true }]), 0, Reason::NoSuchWay),
        (refused(&[Drop(1)]), 0, Reason::InputMissing),
        (refused(&[Keep(0), Keep(1)]), 1, Reason::MustSave),
        (refused(&[Keep(0), save(1), Keep(0)]), 2, Reason::TooEarly { reached: 2 }),
        (refused(&[Keep(0), save(1), Keep(2), Keep(0)]), 3, Reason::OutputHeld),
        (refused(&[Keep(0), save(1), Keep(2), Backward(2)]), 3, Reason::NotSaved),
        (then(&[save(1)]), 3, Reason::Saved),
        (then(&[Backward(1)]), 3, Reason::OutOfOrder { next: Some(2) }),
        (then(&[Backward(2), Keep(2)]), 4, Reason::AfterBackward),
        (then(&[Backward(2), Backward(1)]), 5, Reason::Unfinished(0)),
        (then(&[Backward(2), Backward(1), Backward(0), Backward(0)]), 6, Reason::OutOfOrder { next: None }),
        (refused(&[]), 0, Reason::Unfinished(2)),
    ] {
        assert_eq!(reported, (index, reason));
    }
}

#[test]
fn a_backward_needs_its_input() {
    let dropped = Action::Save { stage: 1, way: 0, holds_input: false };
    let start = [Keep(0), dropped, save(2), Backward(2)];
    let more = |more: &[Action]| [&start[..], more].concat();
    assert_eq!(refused(&more(&[Backward(1)])), (4, Reason::InputMissing));
    let remade = more(&[Keep(0), Backward(1), save(0), Backward(0)]);
    assert_eq!(simulate(&costs(), &remade).unwrap().runs, [3, 1, 1]);
}

#[test]
fn errors_read_well() {
    let text = |actions: &[Action]| simulate(&costs(), actions).unwrap_err().to_string();
    assert_eq!(text(&[Drop(1)]), "action 0 (drop 1) is illegal: the stage's input is not held");
    assert_eq!(
        text(&[Keep(0), save(1), Keep(0)]),
        "action 2 (keep 0) is illegal: nothing is repeated before stage 2 has run"
    );
    assert_eq!(
        text(&[save(0), save(1), save(2), Backward(1)]),
        "action 3 (backward 1) is illegal: backward of stage 2 comes next"
    );
    assert_eq!(text(&[save(0)]), "action 1 (the end) is illegal: backward of stage 2 is missing");
    let without = Action::Save { stage: 4, way: 2, holds_input: false };
    assert_eq!(without.to_string(), "save 4 in way 2 without input");
    let Illegal { index, .. } = simulate(&costs(), &[without]).unwrap_err();
    assert_eq!(index, 0);
}
