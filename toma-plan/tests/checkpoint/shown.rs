//! The text of a plan.

use toma_plan::checkpoint::{Costs, Held, Plan, Saving, Solver, Stage};

const MIB: u64 = 1 << 20;

fn costs() -> Costs {
    let stage = Stage {
        forward_seconds: 1.0,
        backward_seconds: 2.0,
        output_bytes: MIB,
        saved_bytes: 4 * MIB,
        gradient_bytes: MIB,
        ..Stage::default()
    };
    let mut stages = vec![stage.repeated_alike(); 6];
    stages[3].savings = vec![Saving {
        saved_bytes: 2 * MIB,
        extra_seconds: 0.5,
        backward_peak_bytes: MIB,
        ..Saving::default()
    }];
    Costs::new(stages).unwrap()
}

#[test]
fn a_plan_is_a_line_and_a_table() {
    let plan = costs().plan(14 * MIB, Solver::Auto).unwrap();
    let text = "\
auto: 14.00M at +19.4 % of time (bound +16.7 %), 3 repeats
   stages  first run       repeats
        0  saved                 0
        1  dropped               1
        2  kept                  1
        3  saved in way 1        0
        4  kept                  1
        5  saved                 0";
    assert_eq!(plan.to_string(), text);
    assert_eq!(plan.held()[2..4], [Held::Kept, Held::Saved { way: 1 }]);
}

#[test]
fn neighbors_that_are_alike_share_a_row() {
    let plan = costs().plan(15 * MIB, Solver::Auto).unwrap();
    let text = "\
auto: 15.00M at +16.7 % of time (bound +16.7 %), 3 repeats
   stages  first run       repeats
      0-1  dropped               1
        2  kept                  1
      3-5  saved                 0";
    assert_eq!(plan.to_string(), text);
}

#[test]
fn a_plan_of_ones_own_has_no_solver_and_a_plan_of_no_time_no_percent() {
    let costs = Costs::new(vec![Stage::default()]).unwrap();
    let actions = costs.plan(0, Solver::KeepAll).unwrap().actions().to_vec();
    let plan = Plan::new(&costs, actions).unwrap();
    let text = "\
own plan: 0.00B at +0.0 % of time (bound +0.0 %), 0 repeats
   stages  first run       repeats
        0  saved                 0";
    assert_eq!(plan.to_string(), text);
}

#[test]
fn plans_are_compared_by_what_they_do() {
    let plan = |mib, solver| costs().plan(mib * MIB, solver).unwrap();
    assert_eq!(plan(14, Solver::Auto), plan(14, Solver::Auto));
    assert_ne!(plan(14, Solver::Auto), plan(15, Solver::Auto));
    // A plan made by hand has the bound for its peak.
    let own = Plan::new(&costs(), plan(15, Solver::Rotor).actions().to_vec()).unwrap();
    assert_eq!((own.bound_seconds(), own.solver()), (plan(15, Solver::Rotor).bound_seconds(), None));
}
