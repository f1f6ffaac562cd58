//! The changes of a failed attempt are undone: random state, gradients, buffers.

use std::ops::Range;

use tch::nn;
use tch::{Device, Kind, TchError, Tensor};
use toma_core::report::Report;
use toma_torch::{ErrorKind, RngState, Rollback};

use crate::ground::{self, Budget, FailingAllocation};
use crate::nets::{self, Net, Road};
use crate::stage::{ROW, alone, copies, failing_at, panic_of, predicted, report, rows, size};

/// One step of a linear layer, wide enough for its gradient to matter, in pieces that begin with a refresh.
fn predicted_step(weight: &Tensor, data: &Tensor, rollback: &Rollback) -> Report {
    let rows = data.size()[0];
    let form = predicted().before_retry(|_failed| rollback.restore());
    let result = form.range(0..usize::try_from(rows).unwrap(), 64, |from, to| -> Result<(), TchError> {
        rollback.refresh()?;
        let (from, to) = (size(from), size(to));
        let loss = data.f_narrow(0, from, to - from)?.f_matmul(weight)?.f_square()?.f_mean(Kind::Float)?;
        loss.f_mul_scalar(to - from)?.f_div_scalar(rows)?.f_backward()
    });
    result.unwrap();
    report()
}

/// Each step begins without gradients, as the first one does and each one after `zero_grad`.
#[test]
fn a_refresh_in_a_dry_run_keeps_nothing_and_is_counted() {
    let _alone = alone();
    let mut weight = (Tensor::ones([128, 4096], ground::floats()) / 64.0).set_requires_grad(true);
    let data = Tensor::arange(64 * 128, ground::floats()).reshape([64, 128]) / 8192.0;
    data.matmul(&weight).square().mean(Kind::Float).backward();
    let plain = weight.grad().copy();
    for _step in 0..2 {
        weight = weight.detach().set_requires_grad(true);
        let random = RngState::of(ground::device()).unwrap();
        let rollback = Rollback::new().rng(ground::device()).unwrap().gradients(&[&weight]).unwrap();
        // Room for the gradient and a copy of it, each as large as the weight, and for fewer rows than all.
        let budget = Budget::new(ground::allocated_bytes() + 8 * 128 * 4096 + (3 << 20));
        let report = predicted_step(&weight, &data, &rollback);
        drop(budget);
        assert!(report.predicted.is_some() && report.attempts > 1, "{report}");
        assert_eq!(report.out_of_memory, 0, "{report}");
        assert!((weight.grad() - &plain).abs().max().double_value(&[]) < 1e-6);
        assert_eq!(RngState::of(ground::device()).unwrap(), random);
    }
}

/// Runs `work`, which must need no memory.
fn without_memory(work: impl FnOnce()) {
    let _budget = Budget::new(0);
    let ((), has_failed) = failing_at(0, work);
    assert!(!has_failed, "it allocates");
}

/// A training step that changes gradients, running averages and random state.
fn step(net: &Net, rows: Range<usize>) {
    drop(Tensor::rand([1], ground::floats()));
    net.loss(Road::Panics, &rows).unwrap().backward();
}

/// All state that a step changes.
fn state(net: &Net) -> (Vec<Option<Tensor>>, Vec<Tensor>, RngState) {
    let gradients = net.gradients().into_iter().map(|gradient| gradient.defined().then(|| gradient.copy()));
    (gradients.collect(), copies(&net.buffers()), RngState::of(ground::device()).unwrap())
}

#[test]
fn everything_comes_back_also_gradients_that_were_not_there() {
    let _alone = alone();
    let net = nets::convolution();
    for round in 0..2 {
        let before = state(&net);
        assert_eq!(before.0.iter().all(Option::is_none), round == 0);
        let level = ground::allocated_bytes();
        let rollback = net.rollback(Road::Panics);
        step(&net, 0..8);
        assert_ne!(state(&net), before);
        without_memory(|| rollback.restore());
        drop(rollback);
        assert_eq!(state(&net), before);
        drop(before);
        if round == 0 {
            assert!(ground::allocated_bytes() <= level, "gradients that were not there hold nothing");
        }
        step(&net, 0..8);
    }
}

#[test]
fn gradients_that_were_dropped_or_replaced_come_back() {
    let _alone = alone();
    let net = nets::convolution();
    step(&net, 0..8);
    let before = state(&net);
    let rollback = net.rollback(Road::Panics);
    let mut optimizer = nn::OptimizerConfig::build(nn::Sgd::default(), &net.variables, 0.0).unwrap();
    // `zero_grad` leaves the gradients undefined.
    optimizer.zero_grad();
    assert!(state(&net).0.iter().all(Option::is_none));
    rollback.restore();
    assert_eq!(state(&net).0, before.0);
    optimizer.zero_grad();
    step(&net, 8..16);
    rollback.restore();
    assert_eq!(state(&net).0, before.0);
    // The restored tensors do not share memory with the saved copies, which later steps would change.
    step(&net, 0..8);
    assert_ne!(state(&net).0, before.0);
    rollback.restore();
    assert_eq!(state(&net).0, before.0);
}

#[test]
fn after_a_refresh_that_failed_nothing_is_put_back() {
    let _alone = alone();
    let net = nets::convolution();
    let rollback = net.rollback(Road::Panics);
    step(&net, 0..8);
    let now = state(&net);
    let failing = FailingAllocation::after(2);
    assert_eq!(rollback.refresh().unwrap_err().kind(), ErrorKind::OutOfMemory);
    drop(failing);
    rollback.restore();
    assert_eq!(state(&net), now, "the step before is not lost");
    rollback.refresh().unwrap();
    step(&net, 8..16);
    rollback.restore();
    assert_eq!(state(&net), now);
}

#[test]
fn copies_take_what_they_are_copies_of_and_frozen_variables_none() {
    let _alone = alone();
    let mut net = nets::convolution();
    net.variables.freeze();
    let before = ground::allocated_bytes();
    let rollback = Rollback::new().buffers(&net.variables).unwrap();
    // The running mean and variance of four channels.
    assert_eq!(ground::allocated_bytes(), before + 2 * 4 * 4);
    rollback.refresh().unwrap();
    assert_eq!(ground::allocated_bytes(), before + 2 * 4 * 4);
    drop(rollback);
    assert_eq!(ground::allocated_bytes(), before);
}

#[test]
fn tensors_of_the_users_own_come_back_also_those_that_share_memory() {
    let _alone = alone();
    let (average, hidden) = (Tensor::ones([4], ground::floats()).set_requires_grad(true), rows(2));
    let column = hidden.narrow(1, 5, 1);
    let before = ground::allocated_bytes();
    let rollback = Rollback::new().tensors(&[&average, &hidden, &column]).unwrap();
    assert_eq!(ground::allocated_bytes(), before + 16 + 2 * ROW + 8);
    let change = |more: f64| {
        let _off = tch::no_grad_guard();
        for tensor in [&average, &hidden, &column] {
            let _ = tensor.shallow_clone().g_add_scalar_(more);
        }
    };
    let sums = || [&average, &hidden].map(|tensor| tensor.sum(Kind::Double).double_value(&[]));
    change(1.0);
    assert_eq!(sums(), [8.0, 2048.0 + 2.0]);
    without_memory(|| rollback.restore());
    assert_eq!(sums(), [4.0, 0.0]);
    change(1.0);
    rollback.refresh().unwrap();
    change(1.0);
    rollback.restore();
    assert_eq!(sums(), [8.0, 2048.0 + 2.0]);
}

#[test]
fn a_graph_that_a_failed_attempt_gave_to_a_tensor_is_dropped() {
    let _alone = alone();
    let weight = Tensor::ones([4], ground::floats()).set_requires_grad(true);
    let total = Tensor::zeros([], ground::floats());
    let rollback = Rollback::new().tensors(&[&total]).unwrap();
    let add = || drop(total.shallow_clone().g_add_(&weight.sum(None)));
    add();
    rollback.restore();
    assert!(!total.requires_grad());
    add();
    total.backward();
    assert_eq!((total.double_value(&[]), weight.grad()), (4.0, weight.ones_like()));
    let error = rollback.refresh().unwrap_err();
    assert_eq!(error.to_string(), "tensor that belongs to a graph: cannot be put back in place");
}

#[test]
fn tensors_that_could_not_be_put_back_are_refused_when_they_are_taken() {
    let _alone = alone();
    let dense = || Tensor::ones([2, 3], ground::floats());
    let expanded = Tensor::ones([3], ground::floats()).expand([2, 3], false);
    for (tensor, reason) in [
        (Tensor::new(), "undefined tensor"),
        (dense().to_sparse(None, None::<i64>, None), "sparse tensor"),
        (expanded, "tensor whose elements share memory"),
        (dense().set_requires_grad(true) * 2.0, "tensor that belongs to a graph"),
    ] {
        let error = Rollback::new().tensors(&[dense(), tensor]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.to_string(), format!("{reason}: cannot be put back in place"));
    }
    assert!(Rollback::new().tensors(&[dense().to_sparse_csr(None)]).is_err());
    let tensor = dense();
    let _budget = Budget::new(0);
    assert_eq!(Rollback::new().tensors(&[tensor]).unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[test]
fn state_that_cannot_be_saved_is_an_error() {
    let _alone = alone();
    let error = Rollback::new().rng(Device::Cuda(9999)).unwrap_err();
    assert_ne!(error.kind(), ErrorKind::OutOfMemory);
    let weight = Tensor::ones([4, 2], ground::floats()).set_requires_grad(true);
    let rows = Tensor::from_slice(&[1_i64]).to_device(ground::device());
    Tensor::embedding(&weight, &rows, -1, false, true).sum(Kind::Float).backward();
    let error = Rollback::new().gradients(&[&weight]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("sparse gradient"), "{error}");
    let net = nets::convolution();
    step(&net, 0..8);
    let _budget = Budget::new(0);
    let error = Rollback::new().gradients(&net.weights()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
}

#[test]
fn a_buffer_that_cannot_be_restored_is_a_panic() {
    let _alone = alone();
    let mut variables = nn::VarStore::new(ground::device());
    let buffer = variables.root().zeros_no_train("buffer", &[4]);
    let rollback = Rollback::new().buffers(&variables).unwrap();
    variables.unfreeze();
    let _ = buffer.shallow_clone().resize_([5]);
    let text = panic_of(|| rollback.restore());
    assert!(text.contains("rollback: cannot be put back"), "{text}");
}

#[test]
fn random_states_need_no_memory_and_leave_none_allocated() {
    let _alone = alone();
    let before = ground::allocated_bytes();
    ground::reset_peak_allocated_bytes();
    let state = RngState::of(ground::device()).unwrap();
    state.restore().unwrap();
    assert_eq!([ground::allocated_bytes(), ground::peak_allocated_bytes()], [before; 2]);
    let draw = || Tensor::randn([16], ground::floats());
    let numbers = draw();
    without_memory(|| {
        state.restore().unwrap();
        assert_eq!(RngState::of(ground::device()).unwrap(), state);
    });
    assert_eq!(draw(), numbers);
}
