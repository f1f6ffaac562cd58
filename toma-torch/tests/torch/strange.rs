//! Bodies and data that have no prediction: each gives a clear error or a stated result.

use std::thread;

use tch::{Kind, TchError, Tensor};
use toma_torch::{Backward as _, Device, ErrorKind, Forward as _, Loss, dry_run, predict};

use crate::ground::{self, Budget};
use crate::stage::{alone, caught, device, panic_of, predicted, printed, report, size};

fn weight() -> Tensor {
    Tensor::ones([8], ground::floats()).set_requires_grad(true)
}

fn data() -> Tensor {
    Tensor::ones([10, 8], ground::floats())
}

/// Returns the error of a training form for a loss, which must be printed once; nothing stays allocated.
fn refusal(loss: impl Fn(&Tensor, &Tensor) -> Tensor) -> String {
    let (weight, data) = (weight(), data());
    let before = ground::allocated_bytes();
    let train = || drop(predicted().backward(Loss::Mean, &weight, &data, |rows| loss(rows, &weight)));
    let (text, printed) = printed(|| panic_of(train));
    assert_eq!((printed, ground::allocated_bytes()), (1, before), "{text}");
    assert!(!weight.grad().defined(), "{text}");
    text
}

#[test]
fn losses_that_are_none_are_refused_once() {
    let _alone = alone();
    assert_eq!(
        refusal(|rows, weight| rows * weight),
        "backward: Internal torch error: loss of 80 elements: must have exactly one"
    );
    assert_eq!(
        refusal(|rows, _| rows.sum(None)),
        "backward: Internal torch error: loss: was computed from nothing that requires gradients, or with \
         gradients off"
    );
}

#[test]
fn a_body_that_ignores_its_piece_has_the_answer_of_its_own() {
    let _alone = alone();
    let data = data();
    let form = |most| predicted().max(most);
    let text = panic_of(|| drop(form(10).forward(&data, |_| Tensor::ones([4, 2], ground::floats()))));
    assert_eq!(text, "forward: the body returned shape [4, 2] for 10 items: must be one row for each");
    for most in [10, 3] {
        let weight = weight();
        let loss = form(most).backward(Loss::Mean, &weight, &data, |_| weight.sum(None));
        let gradient = weight.grad().sum(None);
        let off = [&loss, &gradient].map(|tensor| (tensor.double_value(&[]) - 8.0).abs());
        assert!(off.iter().all(|off| *off < 1e-5), "pieces of {most}: {off:?}");
    }
}

#[test]
fn few_items_are_predicted_from_fewer() {
    let _alone = alone();
    for items in [1, 2] {
        let data = Tensor::ones([size(items), 8], ground::floats());
        // Room for the output, and for a piece of one item with its operands.
        let _budget = Budget::beyond_allocated(items as u64 * 32 + 64);
        let output = predicted().forward(&data, |rows| rows.exp().sqrt());
        let report = report();
        let predicted = report.predicted.map(|predicted| predicted.size);
        assert_eq!((report.out_of_memory, output.size()[0]), (0, size(items)), "{report}");
        assert_eq!(predicted, (items > 1).then_some(1), "{report}");
    }
}

/// Uses factories alone, because libtorch for the CPU runs no operator for other devices.
#[test]
fn bytes_of_several_devices_are_each_ones_own() {
    let _alone = alone();
    let [here, there] = [ground::device(), tch::Device::Mps].map(Device::new);
    let step = |items: usize| {
        let there = Tensor::ones([size(items), 100], (Kind::Float, tch::Device::Mps));
        [there, Tensor::ones([size(items), 5], ground::floats())]
    };
    let predictions = [&here, &there].map(|device| {
        let tensors = |items| drop(step(items));
        predict(device, tensors).unwrap()
    });
    assert_eq!(predictions.each_ref().map(|prediction| prediction.needs_bytes(16)), [320, 6400]);
    assert_eq!(predictions.map(|prediction| prediction.fits(8080)), [Some(399), Some(19)]);
}

#[test]
fn threads_that_a_body_starts_run_for_real() {
    let _alone = alone();
    let data = data();
    let doubled = |rows: &Tensor| {
        let rows = rows.shallow_clone();
        thread::spawn(move || rows * 2.0).join().unwrap()
    };
    dry_run(|| assert_eq!(doubled(&data).double_value(&[0, 0]), 1.0, "a number is read dry")).unwrap();
    let mut real = Tensor::new();
    dry_run(|| real = doubled(&data)).unwrap();
    assert_eq!(real, &data * 2.0, "a thread makes real tensors, which may be kept");
    assert_eq!(predicted().forward(&data, |rows| doubled(&rows.exp())), (data.exp() * 2.0));
    // A graph made by another thread is not in the dry run, so sizes are found by running.
    let weight = weight();
    let loss = predicted().backward(Loss::Sum, &weight, &data, |rows| {
        let (rows, weight) = (rows.shallow_clone(), weight.shallow_clone());
        thread::spawn(move || (rows * weight).sum(None)).join().unwrap()
    });
    assert_eq!((loss.double_value(&[]), weight.grad().double_value(&[0])), (80.0, 10.0));
    assert_eq!(report().predicted, None);
}

/// A dry run would leave its graph on the sum, and backward would add that gradient too.
#[test]
fn a_sum_of_the_user_that_gets_a_gradient_in_place_is_counted_once() {
    let _alone = alone();
    let (weight, data) = (weight(), Tensor::ones([10, 8], ground::floats()));
    let mut penalty = Tensor::zeros([], ground::floats());
    let loss = toma_torch::backward(&weight, &data, |rows| {
        penalty += weight.square().sum(None);
        (rows * &weight).sum(None) + &penalty
    });
    let gradient = weight.grad();
    let all = [&loss, &gradient.min(), &gradient.max()].map(|number| number.double_value(&[]));
    assert_eq!(all, [88.0, 12.0, 12.0]);
}

/// A dry run finds no gradient to clear, as the first piece does not, and the next would clear that of the first.
#[test]
fn a_body_that_clears_gradients_is_not_split() {
    let _alone = alone();
    let (weight, data) = (weight(), Tensor::ones([8, 8], ground::floats()));
    let run = |most| {
        predicted().max(most).backward(Loss::Sum, &weight, &data, |rows| {
            weight.shallow_clone().zero_grad();
            (rows * &weight).sum(None)
        })
    };
    let text = panic_of(|| drop(run(4)));
    assert!(text.contains("the body changes gradients itself"), "{text}");
    let loss = run(8);
    let gradient = weight.grad();
    let all = [&loss, &gradient.min(), &gradient.max()].map(|number| number.double_value(&[]));
    assert_eq!(all, [64.0, 8.0, 8.0]);
}

/// An error of the body in a dry run prevents the prediction, and is returned when the real run meets it.
#[test]
fn an_error_of_the_body_goes_through_as_it_is() {
    let _alone = alone();
    let data = data();
    let broken = |_: &Tensor| Err::<Tensor, _>(TchError::Torch("broken".to_owned()));
    let error = predicted().forward(&data, broken).unwrap_err();
    assert_eq!(error.to_string(), "Internal torch error: broken");
    let error = predict(device(), |_| broken(&data)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.to_string().starts_with("dry run of 4 items: "), "{error}");
    let empty = Tensor::zeros([0, 8], ground::floats());
    assert_eq!(predicted().forward(&empty, Tensor::exp).size(), [0, 8], "the body runs once, for its shape");
    assert_eq!(caught(|| dry_run(|| empty.exp()).is_ok()), Ok(true));
}
