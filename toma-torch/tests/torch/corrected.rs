//! Attempts correct predictions, and dry runs leave all state unchanged.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tch::nn::{self, OptimizerConfig as _};
use tch::{Kind, Tensor};
use toma_core::Adaptive;
use toma_core::predict::is_dry;
use toma_core::report::Report;
use toma_torch::{Backward as _, Forward as _, Loss};

use crate::ground::{self, Budget};
use crate::stage::{alone, caught, device, predicted, report, size};

fn predicted_size(report: &Report) -> Option<usize> {
    report.predicted.map(|predicted| predicted.size)
}

/// Sums the squares of each row, and counts dry pieces. Real attempts take `hidden` times the rows in addition.
fn squares(rows: &Tensor, hidden: usize, dry: &Cell<usize>) -> Tensor {
    let hidden = if is_dry() { 0 } else { hidden };
    dry.update(|dry| dry + usize::from(is_dry()));
    let _hidden: Vec<Tensor> = (0..hidden).map(|_| rows.copy()).collect();
    rows.square().sum_dim_intlist(&[1_i64][..], true, Kind::Float)
}

#[test]
fn a_size_that_failed_is_not_begun_with_again_and_two_mistakes_are_enough() {
    let _alone = alone();
    let rows = Tensor::ones([512, 1024], ground::floats());
    let dry = Cell::new(0);
    let _budget = Budget::beyond_allocated(1 << 20);
    let run = |hidden| {
        drop(predicted().forward(&rows, |rows| squares(rows, hidden, &dry)));
        (report(), dry.replace(0))
    };
    let (right, first_runs) = run(0);
    let of_pieces = "that of all items, because it splits, and that of the smaller last piece";
    assert_eq!((right.out_of_memory, run(0).1), (0, 2), "{of_pieces}: {right}");
    assert!(first_runs > 0);
    let (wrong, renewed) = run(3);
    assert!(renewed > 0, "it is renewed at once");
    assert!(wrong.out_of_memory > 0 && predicted_size(&wrong) == predicted_size(&right), "{wrong}");
    let (corrected, dry_runs) = run(3);
    assert!(predicted_size(&corrected) < predicted_size(&wrong), "{corrected}");
    assert_eq!(predicted_size(&corrected), wrong.bounds.largest_success, "what worked");
    assert_eq!((corrected.out_of_memory, dry_runs), (0, 2), "{of_pieces}: {corrected}");
    let (wrong, _) = run(30);
    assert!(wrong.out_of_memory > 0, "{wrong}");
    let (measured, dry_runs) = run(0);
    assert_eq!((predicted_size(&measured), dry_runs), (None, 1), "{measured}");
}

/// A prediction that the caller keeps is corrected, too.
#[test]
fn a_prediction_of_the_callers_own_is_corrected_too() {
    let _alone = alone();
    let rows = Tensor::ones([64, 1024], ground::floats());
    let dry = Cell::new(0);
    let dry_run = |items| drop(squares(&rows.narrow(0, 0, size(items)), 0, &dry));
    let prediction = toma_torch::predict(device(), dry_run).unwrap();
    let _budget = Budget::beyond_allocated(160 << 10);
    let run = |hidden| {
        let form = predicted().predict(&prediction);
        form.range(0..64, 64, |start, end| {
            drop(squares(&rows.slice(0, size(start), size(end), 1), hidden, &dry));
        });
        predicted_size(&report())
    };
    let first = run(3);
    let second = run(9);
    assert!(first > second && second.is_some(), "{first:?}, {second:?}");
    assert_eq!(run(0), None);
    let bytes = prediction.needs_bytes(8);
    assert_eq!(bytes, 8 * 4100, "what it says by itself stays");
}

/// `Adaptive` adds the bytes that pieces took beyond the prediction, for later pieces and later calls.
#[test]
fn a_measured_difference_counts_for_the_next_call() {
    let _alone = alone();
    let rows = Tensor::ones([256, 1024], ground::floats());
    let _budget = Budget::beyond_allocated(1 << 20);
    let run = |hidden: i64| {
        let sums = predicted().policy(Adaptive::default()).forward(&rows, |rows| {
            let _hidden = (!is_dry()).then(|| Tensor::ones([hidden, 1024], ground::floats()));
            rows.square().sum_dim_intlist(&[1_i64][..], true, Kind::Float)
        });
        drop(sums);
        report()
    };
    let first = run(0);
    let sizes = |report: &Report| report.tried.iter().map(|tried| tried.size).collect::<Vec<_>>();
    let fits = predicted_size(&first).unwrap();
    assert!((128..256).contains(&fits) && first.start == 128, "pieces are even: {first}");
    assert!(sizes(&first).iter().all(|&size| size * 2 > fits), "nothing small is measured: {first}");
    let second = run(1);
    assert_eq!(predicted_size(&second), Some(fits), "{second}");
    let third = run(1);
    assert_eq!(predicted_size(&third), Some(fits - 1), "{third}");
    assert_eq!(third.out_of_memory, 0, "{third}");
}

/// A first step is split as the second one must be, in which Adam's state takes memory.
#[test]
fn a_first_step_leaves_room_for_what_the_optimizer_will_keep() {
    let _alone = alone();
    let rows = Tensor::ones([2048, 1024], ground::floats());
    let stores = [(); 3].map(|()| nn::VarStore::new(ground::device()));
    let weights = stores.each_ref().map(|store| store.root().zeros("weight", &[1024, 256]));
    let step = |optimizer: &mut nn::Optimizer, weight: &Tensor| {
        let loss = predicted().backward_step(Loss::Mean, &mut *optimizer, &rows, |rows| {
            rows.matmul(weight).square().mean(Kind::Float)
        });
        drop(loss);
        optimizer.zero_grad();
        let report = report();
        assert_eq!(report.out_of_memory, 0, "{report}");
        report.predicted.unwrap()
    };
    let mut plain = nn::Sgd::default().build(&stores[0], 1e-3).unwrap();
    let whole = step(&mut plain, &weights[0]);
    assert_eq!(whole.size, 2048);
    // A whole step fits, but not together with the 2 MiB of state that Adam keeps for a weight of 1 MiB.
    let within = |work: &mut dyn FnMut() -> [usize; 2]| {
        let _budget = Budget::beyond_allocated(whole.needs_bytes * 102 / 100 + (1 << 20));
        work()
    };
    let mut adam = nn::Adam::default().build(&stores[1], 1e-3).unwrap();
    let [first, second] = within(&mut || [(); 2].map(|()| step(&mut adam, &weights[1]).size));
    assert!(first == second && first < 2048, "{first}, {second}");
    let mut plain = nn::Sgd::default().build(&stores[2], 1e-3).unwrap();
    let [first, second] = within(&mut || [(); 2].map(|()| step(&mut plain, &weights[2]).size));
    assert!(first < second && second == 2048, "once a step is seen, nothing is left free: {first}, {second}");
}

fn key_of(shape: i64) -> Tensor {
    Tensor::ones([8, shape, 64], ground::floats())
}

/// Each call has a new shape, so dry runs would take longer than the calls.
#[test]
fn dry_runs_of_new_shapes_are_few_and_a_larger_one_serves() {
    let _alone = alone();
    let dry = Cell::new(0);
    let run = |key: &str, shape: i64| {
        let rows = key_of(shape);
        drop(predicted().key(key).forward(&rows, |rows| {
            if is_dry() {
                dry.update(|dry| dry + 1);
                std::thread::sleep(Duration::from_millis(2));
            }
            rows.square()
        }));
        (report().predicted, dry.replace(0) > 0)
    };
    let falling: Vec<_> = (0..20).map(|shape| run("falling", 40 - shape)).collect();
    assert_eq!(falling.iter().filter(|(_, ran_dry)| *ran_dry).count(), 16);
    assert!(falling.iter().all(|(predicted, _)| predicted.is_some()), "a larger one is a bound: {falling:?}");
    let needs = |index: usize| falling[index].0.unwrap().needs_bytes;
    assert_eq!((needs(16), needs(19)), (needs(15), needs(15)), "the smallest of the larger ones");
    let rising: Vec<_> = (0..20).map(|shape| run("rising", 1 + shape)).collect();
    assert!(rising[..16].iter().all(|(predicted, ran_dry)| predicted.is_some() && *ran_dry));
    assert!(rising[16..].iter().all(|(predicted, ran_dry)| predicted.is_none() && !*ran_dry), "{rising:?}");
}

/// The first piece is judged by a dry run even if dry runs would take too long for a prediction.
#[test]
fn a_body_that_must_not_be_split_is_not_split_without_a_dry_run_of_its_own() {
    let _alone = alone();
    let weight = Tensor::ones([64], ground::floats()).set_requires_grad(true);
    for shape in 1..20_i64 {
        let rows = key_of(shape);
        let _budget = Budget::beyond_allocated(8 * 256 * 18);
        let _ = caught(|| {
            predicted().backward(Loss::Mean, &weight, &rows, |rows| {
                if is_dry() {
                    std::thread::sleep(Duration::from_millis(2));
                }
                (rows * &weight).softmax(0, Kind::Float).square().mean(None)
            })
        });
        let bounds = report().bounds;
        assert!(bounds.largest_success.is_none_or(|size| size == 8), "{shape}: {}", report());
    }
}

#[test]
fn dry_pieces_are_taken_back_while_it_is_still_dry() {
    let _alone = alone();
    let rows = Tensor::ones([20, 8], ground::floats());
    let (done, undone) = (RefCell::new(Vec::new()), Cell::new(0));
    let form = || {
        predicted().before_retry(|piece: std::ops::Range<usize>| {
            assert!(is_dry(), "no attempt fails");
            assert_eq!(done.borrow_mut().pop(), Some(piece.len()), "the last first");
            undone.update(|undone| undone + 1);
        })
    };
    let note = |rows: &Tensor| done.borrow_mut().push(usize::try_from(rows.size()[0]).unwrap());
    drop(form().forward(&rows, |rows| {
        note(rows);
        rows.square()
    }));
    // Two pieces of each of the sizes 4, 8, and the one that fits.
    assert_eq!((done.take(), undone.replace(0)), (vec![20], 6));
    let weight = Tensor::ones([8], ground::floats()).set_requires_grad(true);
    drop(form().backward(Loss::Mean, &weight, &rows, |rows| {
        note(rows);
        (rows * &weight).square().mean(None)
    }));
    assert_eq!((done.take(), undone.replace(0)), (vec![20], 6));
    // A dry run that fails before its end has begun one piece.
    drop(form().forward(&rows, |rows| {
        note(rows);
        rows.to_sparse_sparse_dim(2).to_dense(None, false)
    }));
    assert_eq!((done.take(), undone.get()), (vec![20], 1));
}

#[test]
fn a_budget_below_one_item_is_tried_and_then_reported() {
    let _alone = alone();
    let rows = Tensor::ones([20, 1024], ground::floats());
    let budget = Budget::beyond_allocated(6 << 10);
    let failed = caught(|| predicted().forward(&rows, |rows| rows.exp().square()));
    drop(budget);
    assert!(failed.is_err());
    let report = report();
    let short = report.shortfall.expect("it is known what one item needs");
    assert_eq!((short.size, short.needs_bytes, short.per_item_bytes), (1, 8192, Some(8192)), "{report}");
    assert_eq!(short.free_bytes, 6 << 10);
    assert!(
        report.to_string().contains("needs 8.0 KiB (0 bytes in every piece, 8.0 KiB per item), 6.0 KiB free"),
        "{report}"
    );
}

/// Forms of the engine keep their predictions elsewhere, and still pass on the observations of the call.
#[test]
fn measurements_of_a_loop_correct_its_prediction_too() {
    let _alone = alone();
    let rows = Tensor::ones([512, 1024], ground::floats());
    let dry = Cell::new(0);
    let _budget = Budget::beyond_allocated(1 << 20);
    let run = |hidden| {
        predicted().range(0..512, 512, |start, end| {
            drop(squares(&rows.slice(0, size(start), size(end), 1), hidden, &dry));
        });
        (report(), dry.replace(0))
    };
    let (wrong, _) = run(3);
    assert!(wrong.out_of_memory > 0, "{wrong}");
    let (corrected, renewed) = run(3);
    assert_eq!(predicted_size(&corrected), wrong.bounds.largest_success, "{corrected}");
    assert_eq!((corrected.out_of_memory, renewed > 0), (0, true), "{corrected}");
    assert_eq!(run(3).1, 0, "it is renewed once");
    assert!(run(30).0.out_of_memory > 0);
    let (measured, dry_runs) = run(0);
    assert_eq!((predicted_size(&measured), dry_runs), (None, 0), "{measured}");
}

#[test]
fn dry_runs_of_a_loop_with_new_shapes_are_few_too() {
    let _alone = alone();
    let run = |shape: i64| {
        let ran_dry = Cell::new(false);
        predicted().chunked(&key_of(shape), 8, |rows, _, _| {
            if is_dry() {
                ran_dry.set(true);
                std::thread::sleep(Duration::from_millis(2));
            }
            drop(rows.square());
        });
        (ran_dry.get(), report().predicted.is_some())
    };
    let runs: Vec<_> = (1..20).map(run).collect();
    assert_eq!((&runs[..16], &runs[16..]), (&[(true, true); 16][..], &[(false, false); 3][..]));
}
