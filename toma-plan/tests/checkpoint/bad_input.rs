//! Inputs that are refused, and extremes that are accepted.

use toma_plan::checkpoint::{Costs, InvalidCosts, Saving, Solver, Stage};

fn one(stage: Stage) -> Result<Costs, InvalidCosts> {
    Costs::new(vec![Stage::default(), stage])
}

#[test]
fn no_stages_are_no_chain() {
    let error = Costs::new(vec![]).unwrap_err();
    assert_eq!(error, InvalidCosts::NoStages);
    assert_eq!(error.to_string(), "there are no stages to plan");
}

#[test]
fn times_are_finite_and_not_negative() {
    for seconds in [f64::NAN, f64::INFINITY, -1.0] {
        let saving = Saving { extra_seconds: seconds, ..Saving::default() };
        for (name, stage) in [
            ("forward_seconds", Stage { forward_seconds: seconds, ..Stage::default() }),
            ("repeat_seconds", Stage { repeat_seconds: seconds, ..Stage::default() }),
            ("backward_seconds", Stage { backward_seconds: seconds, ..Stage::default() }),
            ("extra_seconds", Stage { savings: vec![saving], ..Stage::default() }),
        ] {
            let error = one(stage).unwrap_err();
            let text = format!("stage 1 has {name} of {seconds}, which is negative or not finite");
            assert_eq!(error.to_string(), text);
        }
    }
    let longest = Stage { forward_seconds: f64::MAX, ..Stage::default() };
    assert_eq!(Costs::new(vec![longest.clone(); 2]), Err(InvalidCosts::TooLong { count: 2 }));
    assert!(Costs::new(vec![longest]).is_ok());
    // Sums of seconds in a plan stay finite, too.
    let longest = Stage { repeat_seconds: f64::MAX / 2.0, ..Stage::default() };
    assert_eq!(Costs::new(vec![longest; 2]), Err(InvalidCosts::TooLong { count: 2 }));
}

#[test]
fn all_bytes_together_fit_a_number() {
    let largest = Stage { gradient_bytes: u64::MAX, ..Stage::default() };
    let costs = one(largest.clone()).unwrap();
    assert_eq!((costs.least_bytes(), costs.keep_all_bytes()), (u64::MAX, u64::MAX));
    for solver in Solver::ALL {
        assert_eq!(costs.plan(u64::MAX, solver).unwrap().peak_bytes(), u64::MAX);
        let error = costs.plan(u64::MAX - 1, solver).unwrap_err();
        assert_eq!((error.least_bytes, error.budget_bytes, error.stage), (u64::MAX, u64::MAX - 1, 1));
    }
    assert_eq!(costs.curve().len(), 1);
    assert_eq!(costs.with_input_gradient(1), Err(InvalidCosts::TooLarge { count: 2 }));
    let error = Costs::new(vec![largest; 2]).unwrap_err();
    assert_eq!(error.to_string(), "the bytes of 2 stages add up to more than 18446744073709551615");
}

#[test]
fn large_sizes_are_planned_in_slots() {
    let stage = Stage {
        forward_seconds: 1.0,
        output_bytes: 1 << 56,
        saved_bytes: 1 << 58,
        gradient_bytes: 1 << 56,
        ..Stage::default()
    };
    let costs = Costs::new(vec![stage.repeated_alike(); 16]).unwrap();
    for budget in [costs.least_bytes(), 1 << 60, 1 << 61] {
        let plan = costs.plan(budget, Solver::Auto).unwrap();
        assert!(plan.peak_bytes() <= budget && plan.repeats().sum::<usize>() > 0);
    }
}

#[test]
fn saved_bytes_include_the_output() {
    let stage = Stage { output_bytes: 5, saved_bytes: 4, ..Stage::default() };
    let error = one(stage).unwrap_err();
    assert_eq!(error.to_string(), "stage 1 saves 4 bytes in way 0, less than its output of 5");
    let savings = vec![Saving { saved_bytes: 3, ..Saving::default() }];
    let stage = Stage { output_bytes: 5, saved_bytes: 6, savings, ..Stage::default() };
    let error = one(stage).unwrap_err();
    assert_eq!(error.to_string(), "stage 1 saves 3 bytes in way 1, less than its output of 5");
}

#[test]
fn parts_are_no_more_than_the_whole() {
    let stage = Stage { output_bytes: 5, saved_bytes: 7, ..Stage::default() };
    let error = one(Stage { idle_bytes: 6, ..stage.clone() }).unwrap_err();
    assert_eq!(error.to_string(), "stage 1 has idle_bytes of 6, more than the 5 that they are a part of");
    let error = one(Stage { program_bytes: 8, ..stage.clone() }).unwrap_err();
    let text = "stage 1 has program_bytes of 8, more than the 7 that they are a part of";
    assert_eq!(error.to_string(), text);
    let error = one(Stage { idle_bytes: 5, program_bytes: 3, ..stage.clone() }).unwrap_err();
    let text = "stage 1 has program_bytes of 3, more than the 2 that they are a part of";
    assert_eq!(error.to_string(), text, "no byte is both");
    assert!(one(Stage { idle_bytes: 5, program_bytes: 2, ..stage }).is_ok());
}

#[test]
fn a_stage_that_cannot_be_repeated_is_saved_in_one_way() {
    let stage = Stage { must_save: true, savings: vec![Saving::default()], ..Stage::default() };
    let error = one(stage).unwrap_err();
    assert_eq!(error.to_string(), "stage 1 cannot be repeated, but has 1 savings that repeat parts of it");
}

#[test]
fn one_stage_runs_once() {
    let stage = Stage {
        forward_seconds: 1.0,
        backward_seconds: 2.0,
        output_bytes: 3,
        saved_bytes: 5,
        gradient_bytes: 3,
        ..Stage::default()
    };
    let costs = Costs::new(vec![stage.repeated_alike()]).unwrap();
    assert_eq!((costs.least_bytes(), costs.keep_all_bytes()), (8, 8));
    let plan = costs.plan(8, Solver::Auto).unwrap();
    assert_eq!((plan.seconds(), plan.bound_seconds(), plan.stages()), (3.0, 3.0, 1));
    let error = costs.plan(7, Solver::Auto).unwrap_err();
    assert_eq!(error.to_string(), "a budget of 7 bytes is too small for auto: stage 0 needs 8 bytes");
    // memonger runs its one segment again, while the output of the first run is still live.
    assert_eq!(costs.plan(8, Solver::SqrtN).unwrap_err().least_bytes, 11);
}

#[test]
fn stages_without_bytes_need_no_budget() {
    let stage = Stage { forward_seconds: 1.0, ..Stage::default() };
    let costs = Costs::new(vec![stage.repeated_alike(); 9]).unwrap();
    for solver in Solver::ALL {
        assert_eq!(costs.plan(0, solver).unwrap().peak_bytes(), 0);
    }
    assert_eq!(costs.curve().len(), 1);
    let idle = Costs::new(vec![Stage::default(); 3]).unwrap();
    assert_eq!(idle.plan(0, Solver::Auto).unwrap().seconds(), 0.0);
}

#[test]
fn a_stage_that_cannot_be_repeated_runs_once_in_every_plan() {
    let stage = Stage {
        forward_seconds: 1.0,
        output_bytes: 1,
        saved_bytes: 10,
        gradient_bytes: 1,
        ..Stage::default()
    }
    .repeated_alike();
    let mut stages = vec![stage; 12];
    stages[6].must_save = true;
    let costs = Costs::new(stages).unwrap();
    for budget in costs.least_bytes()..=costs.keep_all_bytes() {
        let plan = costs.plan(budget, Solver::Auto).unwrap();
        assert_eq!(plan.repeats().nth(6), Some(0));
    }
    let plan = costs.plan(u64::MAX, Solver::SqrtN).unwrap();
    assert_eq!(plan.repeats().collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1]);
}

#[test]
fn names_of_solvers_are_read_as_they_are_shown() {
    for solver in Solver::ALL {
        assert_eq!(solver.to_string().parse(), Ok(solver));
    }
    assert_eq!(Solver::default(), Solver::Auto);
    let error = "Rotor".parse::<Solver>().unwrap_err();
    assert_eq!(error.to_string(), "`Rotor` is no solver: expected keep-all, sqrt-n, rotor or auto");
}

/// The first run of the stage takes 3 bytes more if it saves, and its repeat takes none.
#[test]
fn where_first_runs_need_more_than_repeats_all_run_twice() {
    let stage = Stage {
        output_bytes: 1,
        saved_bytes: 1,
        gradient_bytes: 4,
        saving_peak_bytes: 3,
        ..Stage::default()
    };
    let costs = Costs::new(vec![stage]).unwrap();
    assert_eq!((costs.least_bytes(), costs.keep_all_bytes()), (6, 8));
    for solver in [Solver::SqrtN, Solver::Rotor, Solver::Auto] {
        assert_eq!(costs.plan(6, solver).unwrap().repeats().collect::<Vec<_>>(), [1]);
    }
}
