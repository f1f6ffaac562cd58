//! Gradients are kept only after all ranks have agreed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use tch::nn::OptimizerConfig as _;
use tch::{Device, Kind, Tensor, nn};
use toma_core::NoCache;
use toma_core::classify::Class;
use toma_core::execute;
use toma_core::ranks::{Group as _, Member, threads};
use toma_torch::{Backward as _, Error, Forward as _, Loss, accumulate_gradients};

const FLOATS: (Kind, Device) = (Kind::Double, Device::Cpu);

/// Runs `run` on each of two ranks and returns both results.
fn on_both<R: Send>(run: impl Fn(Member) -> R + Sync) -> Vec<R> {
    let run = &run;
    thread::scope(|scope| {
        let running: Vec<_> = threads(2).into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
        running.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Fails on rank 1 with more than two items, which it notices only after computing its gradients.
fn has_room(rank: &Member, items: i64) -> Result<(), Error> {
    let lacks = rank.rank() == 1 && items > 2;
    if lacks { Err(Error::from(toma_core::classify::Failure::from(Class::OutOfMemory))) } else { Ok(()) }
}

#[test]
fn accumulated_gradients_are_added_once() {
    let sums = on_both(|rank| {
        let data = Tensor::arange(8, FLOATS);
        let weight = Tensor::ones([], FLOATS).set_requires_grad(true);
        execute::with::<NoCache>()
            .ranks(&rank)
            .chunked(&data, 8, |data, _, _| {
                // Runs twice, because the first call may make the variable's first gradient.
                for _ in 0..2 {
                    accumulate_gradients(&(data * &weight).sum(Kind::Double), &[&weight])?;
                }
                has_room(&rank, data.size()[0])
            })
            .unwrap();
        weight.grad().double_value(&[])
    });
    assert_eq!(sums, [56.0, 56.0]);
}

#[test]
fn a_training_form_adds_nothing_before_all_have_agreed() {
    let sums = on_both(|rank| {
        let data = Tensor::arange(8, FLOATS);
        let weight = Tensor::ones([], FLOATS).set_requires_grad(true);
        let form = execute::with::<NoCache>().ranks(&rank);
        let loss = form.backward(Loss::Sum, &weight, &data, |data| {
            has_room(&rank, data.size()[0])?;
            Ok::<_, Error>((data * &weight).sum(Kind::Double))
        });
        (loss.unwrap().double_value(&[]), weight.grad().double_value(&[]))
    });
    assert_eq!(sums, [(28.0, 28.0); 2]);
}

/// It has nothing to cut, and the other one waits for its votes.
#[test]
fn a_rank_without_rows_votes() {
    let counts = on_both(|rank| {
        let data = Tensor::arange(if rank.rank() == 1 { 8 } else { 0 }, FLOATS);
        let rows = execute::with::<NoCache>().ranks(&rank).forward(&data, |data| {
            has_room(&rank, data.size()[0])?;
            Ok::<_, Error>(data * 2.0)
        });
        rows.map(|rows| rows.size()).map_err(|error| error.to_string())
    });
    assert_eq!(counts, [Ok(vec![0]), Ok(vec![8])]);
}

#[test]
fn a_backward_that_another_rank_ends_leaves_no_gradient() {
    let defined = on_both(|rank| {
        let weight = Tensor::ones([], FLOATS).set_requires_grad(true);
        let done = execute::with::<NoCache>().ranks(&rank).batch(4, |_| {
            accumulate_gradients(&(&weight * 2.0), &[&weight])?;
            if rank.rank() == 1 { Err(tch::TchError::Torch("no".to_owned())) } else { Ok(()) }
        });
        (done.unwrap_err().to_string(), weight.grad().defined())
    });
    assert!(defined.iter().all(|(_, defined)| !defined), "{defined:?}");
    assert!(defined[0].0.contains("rank 1 of 2 ended"), "{defined:?}");
}

#[test]
fn no_step_is_taken_before_its_gradients_are_there() {
    let panics = on_both(|rank| {
        let store = nn::VarStore::new(Device::Cpu);
        let weight = store.root().ones("weight", &[1]);
        let mut optimizer = nn::Sgd::default().build(&store, 1.0).unwrap();
        let data = Tensor::ones([4], (Kind::Float, Device::Cpu));
        let run = || {
            execute::with::<NoCache>().ranks(&rank).batch(4, |_| {
                toma_torch::backward_step(&mut optimizer, &data, |data| (data * &weight).sum(Kind::Float))
            })
        };
        let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        let message = payload.downcast_ref::<&str>().copied().unwrap_or_default().to_owned();
        (message, weight.double_value(&[0]).to_bits())
    });
    let panics: Vec<_> = panics.iter().map(|(message, weight)| (message.as_str(), *weight)).collect();
    let refused = "backward_step in an attempt on which ranks agree: must be backward, and a step later";
    let one = 1.0_f64.to_bits();
    assert!(panics.contains(&(refused, one)), "{panics:?}");
    assert!(panics.iter().all(|(_, weight)| *weight == one), "{panics:?}");
}
