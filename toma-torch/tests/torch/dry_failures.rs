//! Forms with a prediction, with a failure at every allocation of their dry runs, on two threads at once, and hundreds
//! of times: the results are the same as without, and nothing is left allocated.

use std::thread;

use tch::Tensor;
use toma_torch::{Backward as _, Forward as _, Loss, RngState, Rollback, predict};

use crate::ground;
use crate::nets::{self, Net, Road};
use crate::rounds::rounds;
use crate::stage::{alone, copies, device, difference, failing_at, predicted, printed, report};

/// Adds the gradients of all rows to existing ones; `key` is the key of its prediction.
fn train(net: &Net, rollback: &Rollback, key: u32) -> Tensor {
    let form = predicted().key(key).before_retry(|_| rollback.restore());
    let data = (&net.input, &net.target);
    form.backward(Loss::Mean, &net.variables, data, |(input, target)| {
        net.of(input).mse_loss(target, tch::Reduction::Mean)
    })
}

#[test]
fn a_failure_at_any_allocation_of_a_prediction_is_made_good() {
    let _alone = alone();
    let stride = 4 / rounds(1, 4);
    for net in [nets::perceptron, nets::residual, || nets::transformer(0.0)] {
        let net = net();
        net.zero_gradients();
        let rollback = net.rollback(Road::Panics);
        let values = |loss: Tensor| copies(net.gradients().iter().chain([&loss]));
        let right = values(train(&net, &rollback, u32::MAX));
        let largest = right.iter().map(|tensor| tensor.abs().max().double_value(&[])).fold(1.0, f64::max);
        let allocated = ground::allocated_bytes();
        let (mut allocation, mut has_failed, mut dry) = (0, true, 0);
        while has_failed {
            net.zero_gradients();
            rollback.refresh().unwrap();
            let train = || train(&net, &rollback, allocation);
            let ((loss, failed), printed) = printed(|| failing_at(allocation, train));
            has_failed = failed;
            let (report, trained) = (report(), values(loss));
            // Smaller pieces are summed in another order.
            let off = difference(&trained, &right) / largest;
            assert!(off < 1e-5 && printed == 0, "{} at {allocation}: {off}, {report}", net.name);
            // A failed dry run makes no prediction; a failed real run is retried.
            let is_dry = has_failed && report.out_of_memory == 0;
            assert!(!is_dry || report.predicted.is_none(), "{} at {allocation}: {report}", net.name);
            dry += u32::from(is_dry);
            drop(trained);
            assert_eq!(ground::allocated_bytes(), allocated, "{} at {allocation}", net.name);
            allocation += stride;
        }
        assert!(
            dry > 5 / stride && dry * stride + 10 < allocation,
            "{}: {dry} of {allocation} are dry",
            net.name
        );
    }
}

/// Each thread finds the other's prediction, or makes its own.
#[test]
fn two_threads_predict_one_line_at_once() {
    let _alone = alone();
    let allocated = ground::allocated_bytes();
    let nets = [(); 2].map(|()| nets::perceptron());
    let right = infer(&nets[0], 0);
    let work = |net: Net, right: Tensor| {
        // A single thread keeps the order of sums fixed; the number is per thread.
        tch::set_num_threads(1);
        assert!((0..200).all(|round| infer(&net, 1 + round / 4) == right));
    };
    let threads = nets.map(|net| {
        let right = right.copy();
        thread::spawn(move || work(net, right))
    });
    drop(right);
    assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    assert_eq!(ground::allocated_bytes(), allocated);
}

fn infer(net: &Net, key: u32) -> Tensor {
    predicted().key(key).max(5).forward(&net.input, |rows| net.of(rows))
}

#[test]
fn predictions_by_the_hundred_agree_and_leave_nothing() {
    let _alone = alone();
    let net = nets::perceptron();
    let step = |rows: usize| net.loss(Road::Panics, &(0..rows)).unwrap().backward();
    let of_ten = || predict(device(), step).unwrap().needs_bytes(10);
    let (first, allocated, random) =
        (of_ten(), ground::allocated_bytes(), RngState::of(ground::device()).unwrap());
    assert!((0..rounds(150, 1000)).all(|_| of_ten() == first));
    assert_eq!((ground::allocated_bytes(), RngState::of(ground::device()).unwrap()), (allocated, random));
    assert!(net.weights().iter().all(|weight| !weight.grad().defined()));
}
