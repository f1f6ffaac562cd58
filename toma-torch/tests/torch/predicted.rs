//! Forms with a prediction: data that they never split, and calls for which nothing is predicted.

use tch::nn::{self, OptimizerConfig as _};
use tch::{Kind, TchError, Tensor};
use toma_core::predict::is_dry;
use toma_core::report::Report;
use toma_core::{Adaptive, NoCache, execute};
use toma_torch::{Backward as _, Forward as _, Loss};

use crate::ground::{self, Budget};
use crate::nets::{self, ROWS};
use crate::stage::{alone, caught, device, panic_of, predicted, report, size};

#[test]
fn a_body_that_cannot_run_dry_is_measured() {
    let _alone = alone();
    let rows = Tensor::ones([size(ROWS), 64], ground::floats());
    let budget = Budget::beyond_allocated(20 * 256 * 2);
    let fails_dry = |rows: &Tensor| {
        if is_dry() { Err(TchError::Torch("dry".to_owned())) } else { Ok(rows.exp().square()) }
    };
    let refused = panic_of(|| drop(predicted().forward(&rows, fails_dry)));
    assert!(refused.contains("out of memory") && report().bounds.largest_success.is_none(), "{refused}");
    // Without the option the caller guarantees that rows are independent.
    let output = execute::with::<NoCache>().device(device()).forward(&rows, fails_dry).unwrap();
    drop(budget);
    let report = report();
    assert_eq!((report.predicted, output.size()[0]), (None, size(ROWS)));
    assert!(report.out_of_memory > 0, "{report}");
}

/// Rows of ones, and a weight of as many ones as a row.
fn ones(rows: i64, width: i64) -> (Tensor, Tensor) {
    let weight = Tensor::ones([width], ground::floats()).set_requires_grad(true);
    (Tensor::ones([rows, width], ground::floats()), weight)
}

/// Trains under a budget that does not fit the whole, but each row.
fn train_by(data: &Tensor, weight: &Tensor, loss: fn(&Tensor) -> Tensor) -> Report {
    let _budget = Budget::beyond_allocated(60 << 10);
    let form = predicted().key(loss);
    let _ = caught(|| form.backward(Loss::Mean, weight, data, |rows| loss(&(rows * weight))));
    report()
}

#[test]
fn rows_that_see_each_other_are_never_split() {
    let _alone = alone();
    let (data, weight) = ones(64, 256);
    let coupled: [fn(&Tensor) -> Tensor; 4] = [
        |rows| rows.softmax(0, Kind::Float).square().mean(None),
        |rows| (rows - rows.mean_dim(&[0_i64][..], true, Kind::Float)).square().mean(None),
        |rows| rows.square().mean(None).sqrt(),
        // Not a mean: pieces would add up to less than the whole.
        |rows| rows.square().sum(None),
    ];
    for loss in coupled {
        let report = train_by(&data, &weight, loss);
        assert_eq!((report.attempts, report.start), (1, 64), "{report}");
    }
    let report = train_by(&data, &weight, |rows| rows.square().mean(None));
    assert!(report.attempts > 1 && report.out_of_memory == 0, "{report}");
}

/// A prediction changes no other option.
#[test]
fn the_smallest_size_stays_the_users() {
    let _alone = alone();
    let (data, weight) = ones(20, 8);
    let result = predicted().min(4).backward(Loss::Mean, &weight, &data, |rows| {
        if !is_dry() && rows.size()[0] > 3 {
            return Err(TchError::Torch("CUDA out of memory. of another".to_owned()));
        }
        Ok((rows * &weight).square().mean(None))
    });
    assert!(result.is_err(), "pieces of 3 are smaller than the least");
    assert!(report().tried.iter().all(|tried| tried.size >= 4), "{}", report());
}

/// The last batch of an epoch may have fewer rows than the least size.
#[test]
fn data_below_the_least_size_are_one_piece() {
    let _alone = alone();
    let mut weight = Tensor::ones([8], ground::floats()).set_requires_grad(true);
    for (rows, number) in [(0, 0.0), (1, 1.0), (5, 5.0)] {
        let data = Tensor::ones([rows, 8], ground::floats());
        for (min, multiple_of) in [(8, 1), (1, 8)] {
            let form = || predicted().min(min).multiple_of(multiple_of);
            assert_eq!(form().forward(&data, |rows| rows * 2.0), &data * 2.0);
            assert!(rows == 0 || report().attempts == 1, "{}", report());
            weight.zero_grad();
            drop(form().backward(Loss::Sum, &weight, &data, |rows| (rows * &weight).sum(Kind::Float)));
            assert!(rows == 0 || report().attempts == 1, "{}", report());
            let gradient = weight.grad();
            assert!(rows == 0 || gradient.eq(number).all().int64_value(&[]) == 1, "{gradient}");
        }
    }
}

/// A bound that would split coupled rows is refused.
#[test]
fn rows_that_see_each_other_are_split_by_no_option() {
    let _alone = alone();
    let (data, weight) = ones(10, 8);
    let pieces = |most: usize, multiple_of: usize| {
        let form = predicted().max(most).multiple_of(multiple_of);
        let mut sizes = Vec::new();
        let loss = form.backward(Loss::Mean, &weight, &data, |rows| {
            if !is_dry() {
                sizes.push(rows.size()[0]);
            }
            (rows * &weight).softmax(0, Kind::Float).square().mean(None)
        });
        drop(loss);
        sizes
    };
    assert_eq!(pieces(10, 1), [10]);
    assert_eq!(pieces(10, 4), [10], "a multiple splits nothing either");
    let text = panic_of(|| drop(pieces(6, 1)));
    let end = "max 6 for 10 items that must not be split, because `aten::_softmax` (operator 2) runs along the batch";
    assert!(text.ends_with(end), "{text}");
}

/// `cdist` is another operator for many rows: no size is confirmed, but the dry run shows that it couples rows.
#[test]
fn rows_that_see_each_other_are_not_split_where_sizes_are_measured() {
    let _alone = alone();
    let (data, weight) = ones(64, 128);
    let distances = |rows: &Tensor| Tensor::cdist(rows, rows, 2.0, None::<i64>).mean(None);
    let report = train_by(&data, &weight, distances);
    assert_eq!((report.attempts, report.start, report.predicted), (1, 64, None), "{report}");
}

/// In a dry run Adam's state would have no memory, and gradients that were dropped first could not be restored.
#[test]
fn a_step_within_a_loop_that_runs_dry_is_taken_for_real_alone() {
    let _alone = alone();
    let net = nets::perceptron();
    let loss = |(input, target): (&Tensor, &Tensor)| net.of(input).mse_loss(target, tch::Reduction::Mean);
    loss((&net.input, &net.target)).backward();
    let gradients =
        || net.variables.trainable_variables().iter().map(|one| one.grad().copy()).collect::<Vec<_>>();
    let weights = || net.variables.trainable_variables().iter().map(Tensor::copy).collect::<Vec<_>>();
    let before = (gradients(), weights());
    let mut optimizer = nn::Adam::default().build(&net.variables, 1e-2).unwrap();
    let mut real = 0;
    predicted().chunked((&net.input, &net.target), ROWS, |data, _, _| {
        if !is_dry() {
            real += 1;
            assert_eq!((gradients(), weights()), before);
        }
        drop(toma_torch::backward_step(&mut optimizer, data, loss));
    });
    assert_eq!((real, report().predicted.map(|predicted| predicted.size)), (1, Some(ROWS)));
    assert_ne!(weights(), before.1);
}

/// One call site that trains two nets predicts each of them separately.
#[test]
fn a_prediction_is_of_one_net() {
    let _alone = alone();
    let rows = Tensor::ones([64, 16], ground::floats());
    let nets = [8, 512].map(|width| Tensor::ones([16, width], ground::floats()).set_requires_grad(true));
    let _budget = Budget::beyond_allocated(256 << 10);
    let sizes = [0, 1, 0, 1].map(|net: usize| {
        let weight = &nets[net];
        drop(predicted().backward(Loss::Mean, weight, &rows, |rows| rows.matmul(weight).square().mean(None)));
        let report = report();
        assert_eq!(report.out_of_memory, 0, "{report}");
        report.predicted.unwrap().size
    });
    assert!(sizes[0] > sizes[1] && sizes[..2] == sizes[2..], "{sizes:?}");
}

/// A prediction for one net is corrected by another net at the same call site: by a failure at once, by far fewer bytes
/// from the next call on, if bytes are measured.
#[test]
fn another_net_on_one_line_is_found_by_what_it_takes() {
    let _alone = alone();
    let rows = Tensor::ones([64, 16], ground::floats());
    let nets = [8, 512].map(|width| Tensor::ones([16, width], ground::floats()));
    let _budget = Budget::beyond_allocated(128 << 10);
    let evaluate = |net: usize| {
        let sums = |rows: &Tensor| rows.matmul(&nets[net]).square().sum_dim_intlist(1, true, Kind::Float);
        drop(predicted().policy(Adaptive::default()).forward(&rows, sums));
        report()
    };
    let small = evaluate(0);
    assert_eq!((small.start, small.out_of_memory), (64, 0), "{small}");
    let [large, again] = [(); 2].map(|()| evaluate(1));
    assert_eq!((large.start, large.out_of_memory), (64, 1), "{large}");
    assert!(again.start > 16 && again.out_of_memory == 0, "{again}");
    assert_eq!(large.tried[1].size, again.start, "{large}");
    let first = [(); 2].map(|()| evaluate(0));
    assert!(first.iter().all(|report| report.out_of_memory == 0), "{first:?}");
    assert_eq!(first[1].start, 64, "{}", first[1]);
}

#[test]
fn a_report_has_the_reason_why_nothing_was_predicted() {
    let _alone = alone();
    let rows = Tensor::ones([64, 16], ground::floats());
    let square = |rows: &Tensor| {
        if is_dry() { Err(TchError::FileFormat("of no model".to_owned())) } else { Ok(rows.square()) }
    };
    drop(predicted().forward(&rows, square).unwrap());
    let (shown, why) = (report().to_string(), "predict  nothing, because the body cannot run dry: ");
    assert!(shown.contains(why), "{shown}");
    let _tight = Budget::beyond_allocated(64);
    let _ = panic_of(|| drop(predicted().forward(&rows, Tensor::square)));
    let (shown, why) =
        (report().to_string(), "predict  nothing, because not even one item is predicted to fit\n");
    assert!(shown.contains(why), "{shown}");
}

/// A program that was judged once is recognized in the next call. With a given kind of loss that call runs nothing dry;
/// with `Loss::Found` it runs only all items dry.
#[test]
fn a_known_program_is_not_judged_again() {
    let _alone = alone();
    let layers = nn::VarStore::new(ground::device());
    let net = nn::linear(layers.root(), 16, 8, nn::LinearConfig::default());
    let rows = Tensor::ones([64, 16], ground::floats());
    let runs = std::cell::Cell::new([0; 2]);
    let train = |loss| {
        let sum = predicted().max(16).backward(loss, &layers.trainable_variables(), &rows, |rows| {
            let [dry, real] = runs.get();
            runs.set(if is_dry() { [dry + 1, real] } else { [dry, real + 1] });
            rows.apply(&net).relu().square().mean(None)
        });
        drop(sum);
        runs.replace([0; 2])
    };
    for (loss, expected) in [(Loss::Mean, [0, 4]), (Loss::Found, [1, 4])] {
        // Steps that make gradients have a prediction of their own.
        let first = [train(loss), train(loss)];
        assert!(first[0][0] > 1, "{first:?}");
        assert_eq!([train(loss), train(loss)], [expected; 2]);
        layers.trainable_variables().iter_mut().for_each(Tensor::zero_grad);
    }
}
