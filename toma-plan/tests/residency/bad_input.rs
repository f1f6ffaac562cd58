//! Impossible steps.

use std::time::Duration;

use toma_plan::residency::{
    Eviction as _, Flow, InvalidStep, Lru, Operator, Step, Storage, Terms, Use, simulate,
};

fn step(storage: Storage, uses: &[usize]) -> Step {
    let uses = uses.iter().map(|&storage| Use { storage, writes: false }).collect();
    let operator = Operator { uses, inside_bytes: 1, duration: Duration::ZERO };
    Step { storages: vec![storage], operators: vec![operator] }
}

fn storage(birth: Option<usize>, death: Option<usize>) -> Storage {
    Storage { bytes: 1, birth, death, stays: false }
}

#[test]
fn every_contradiction_is_named() {
    use InvalidStep::{NoOperators, NoSuchOperator, NoSuchStorage, NotAlive, TooManyBytes, UsedTwice};
    let huge = Storage { bytes: u64::MAX, ..storage(None, None) };
    let cases = [
        (Step::default(), NoOperators, "a step has no operators"),
        (
            step(storage(Some(1), None), &[]),
            NoSuchOperator { storage: 0, operator: 1, operators: 1 },
            "storage 0 is born or gone at operator 1 of 1",
        ),
        (
            step(storage(None, Some(2)), &[]),
            NoSuchOperator { storage: 0, operator: 2, operators: 1 },
            "storage 0 is born or gone at operator 2 of 1",
        ),
        (
            step(storage(None, None), &[1]),
            NoSuchStorage { operator: 0, storage: 1, storages: 1 },
            "operator 0 uses storage 1 of 1",
        ),
        (
            step(storage(None, None), &[0, 0]),
            UsedTwice { operator: 0, storage: 0 },
            "operator 0 lists storage 0 twice",
        ),
        (
            step(storage(Some(0), None), &[0]),
            NotAlive { operator: 0, storage: 0 },
            "operator 0 uses storage 0, which is not there when it begins",
        ),
        (
            step(huge, &[]),
            TooManyBytes,
            "the bytes of all storages and the most inside an operator exceed 281474976710656 together",
        ),
    ];
    for (step, error, text) in cases {
        assert_eq!((step.check(), error.to_string().as_str()), (Err(error), text));
    }
}

#[test]
fn out_of_memory_names_operator_and_bytes() {
    let step = step(storage(None, None), &[0]);
    let outcome = simulate(&step, &Terms::bytes_alone(1), &mut Lru, 1);
    let error = outcome.last().unwrap_err();
    assert_eq!(error.to_string(), "operator 0 needs 2 bytes of a budget of 1");
    assert!(outcome.rounds.is_empty());
}

#[test]
#[should_panic(expected = "a step has no operators")]
fn an_invalid_step_is_not_simulated() {
    simulate(&Step::default(), &Terms::bytes_alone(1), &mut Lru, 1);
}

#[test]
fn a_step_is_text_and_back() {
    let step = step(storage(None, Some(1)), &[0]);
    let text = serde_json::to_string(&step).unwrap();
    assert_eq!(serde_json::from_str::<Step>(&text).unwrap(), step);
}

#[test]
fn over_a_link_that_stands_still_a_step_that_moves_takes_forever() {
    let row = |storage| Operator {
        uses: vec![Use { storage, writes: false }],
        inside_bytes: 0,
        duration: Duration::from_secs(1),
    };
    let step = Step { storages: vec![storage(None, None); 3], operators: (0..3).map(row).collect() };
    for speed in [0.0, f64::NAN, -1.0] {
        let links =
            Terms { in_bytes_per_second: speed, out_bytes_per_second: speed, ..Terms::bytes_alone(2) };
        // The plan may be of little use, but it fits.
        let fits = Flow::default().plan(&step, &links).is_none_or(|plan| plan.peak_bytes() <= 2);
        assert!(fits, "{speed}");
    }
    let still = Terms { in_bytes_per_second: 0.0, ..Terms::bytes_alone(2) };
    assert_eq!(simulate(&step, &still, &mut Lru, 1).seconds(), f64::INFINITY);
}

#[test]
fn the_largest_bytes_do_not_overflow() {
    let half = Step::MOST_BYTES / 2 - 1;
    let row = |storage| Operator {
        uses: vec![Use { storage, writes: true }],
        inside_bytes: 1,
        duration: Duration::from_secs(1),
    };
    let large = Storage { bytes: half, ..storage(None, None) };
    let step = Step { storages: vec![large; 2], operators: vec![row(0), row(1), row(0), row(1)] };
    step.check().unwrap();
    let plan = Flow::default().plan(&step, &Terms::bytes_alone(half + 1)).unwrap();
    assert_eq!((plan.peak_bytes(), plan.absences().len()), (half + 1, 4));
}
