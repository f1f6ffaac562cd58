//! Memory that changes where the region does not see it: inside of sparse tensors, by other threads, through views made
//! before. Also failures of a region's end and of copies of gradients, which are errors instead of aborts.

use std::cell::RefCell;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use tch::{Device, Kind, Tensor};
use toma_core::memory::{set_cpu_memory_limit, used_bytes};
use toma_torch::checkpoint::{self, cut};
use toma_torch::cpu::Budget;
use toma_torch::offload::Manager;

use crate::ground;
use crate::kit::{self, Step, alone, bytes, numbers};

const NONE: Option<&Tensor> = None;

fn same(name: &str, step: Step<'_>) {
    kit::same(name, checkpoint::with(), step);
}

/// Compares a program that trains its argument.
fn same_of_one(name: &str, program: impl Fn(&Tensor) -> Tensor) {
    same(name, &|w, region| {
        let output = region(&|| program(w));
        output.sum(Kind::Float).backward();
        vec![output]
    });
}

/// On the CPU, because a paper card has no values for sparse and nested tensors.
const FLOATS: (Kind, Device) = (Kind::Float, Device::Cpu);

fn sparse() -> Tensor {
    Tensor::eye(4, FLOATS).to_sparse_sparse_dim(2)
}

#[test]
fn values_of_a_sparse_tensor_are_written() {
    let _alone = alone();
    let halve = |sparse: &Tensor| {
        let _ = tch::no_grad(|| sparse.internal_values().g_mul_scalar_(0.5));
    };
    same("sparse, written", &|w, region| {
        let sparse = sparse();
        let output = region(&|| {
            halve(&sparse);
            sparse.mm(&w.to_device(Device::Cpu)).tanh()
        });
        output.sum(Kind::Float).backward();
        vec![output, sparse.to_dense(None, false)]
    });
    same("sparse, written through a view from before", &|w, region| {
        let sparse = sparse();
        let values = sparse.internal_values();
        let output = region(&|| {
            let h = w.to_device(Device::Cpu).tanh();
            cut();
            let _ = tch::no_grad(|| values.shallow_clone().g_mul_scalar_(0.5));
            sparse.mm(&h).tanh()
        });
        output.sum(Kind::Float).backward();
        vec![output, sparse.to_dense(None, false)]
    });
    let (sparse, w) = (sparse(), Tensor::ones([4, 4], FLOATS).set_requires_grad(true));
    let costs = checkpoint::with().measure(|| {
        halve(&sparse);
        let refused = sparse.shallow_clone().f_neg_().unwrap_err().to_string();
        assert!(refused.contains("which cannot be undone"), "{refused}");
        sparse.mm(&w).tanh()
    });
    costs.unwrap();
    assert_eq!(bytes(&sparse.to_dense(None, false)), bytes(&Tensor::eye(4, FLOATS)));
}

#[test]
fn a_nested_tensor_is_saved() {
    let _alone = alone();
    same_of_one("nested", |w| {
        let shapes = Tensor::from_slice(&[4_i64, 4]).view([1, 2]);
        let nested =
            Tensor::internal_nested_from_padded(&w.to_device(Device::Cpu).unsqueeze(0), &shapes, false)
                .relu();
        cut();
        nested.nested_to_padded_tensor(0.0, None::<&[i64]>).tanh()
    });
}

type View = fn(&Tensor) -> Tensor;

#[test]
fn statistics_are_read_through_views_from_before() {
    let _alone = alone();
    let views: [(&str, View); 3] = [
        ("a row", |statistics| statistics.view([1, 4])),
        ("a channel of an image", |statistics| statistics.view([1, 4, 1, 1]).view([1, 4])),
        ("a number", |statistics| statistics.get(0)),
    ];
    for (name, view) in views {
        same(name, &|w, region| {
            let (x, mean, variance) = (numbers(2, &[8, 4]), numbers(3, &[4]), numbers(4, &[4]).exp());
            let read = view(&mean);
            let output = region(&|| {
                let h = (x.matmul(w) - &read).tanh();
                cut();
                (h.matmul(w) - &read).sigmoid().exp()
            });
            let _ = (&x * 5.0).batch_norm(NONE, NONE, Some(&mean), Some(&variance), true, 0.5, 1e-5, false);
            output.sum(Kind::Float).backward();
            vec![output]
        });
    }
}

/// Adds one in place in another thread, which no region sees, and returns another handle.
fn one_added_elsewhere(tensor: Tensor) -> Tensor {
    let add = move || {
        let mut other = tensor.detach();
        drop(tensor);
        let _ = other.g_add_scalar_(1.0);
        other
    };
    thread::spawn(add).join().unwrap()
}

#[test]
fn another_thread_writes_to_a_tensor_of_the_region() {
    let _alone = alone();
    let x = numbers(2, &[4, 4]);
    same_of_one("another handle comes back", |w| {
        let b = one_added_elsewhere(&x + 1.0);
        let d = (&b + w).tanh();
        cut();
        d.matmul(w).sigmoid()
    });
    same_of_one("a view is taken afterwards", |w| {
        let a = &x + 1.0;
        drop(one_added_elsewhere(a.shallow_clone()));
        let flat = a.view([16]);
        let d = (&a + w).tanh() * flat.view([4, 4]);
        cut();
        (d.matmul(w) * &a).sigmoid()
    });
    same_of_one("zeros are filled", |w| {
        let zeros = Tensor::zeros([4, 4], ground::floats());
        drop(one_added_elsewhere(zeros.shallow_clone()));
        let d = (&zeros + w).tanh();
        cut();
        d.matmul(w).sigmoid()
    });
}

/// True on a card. Prints past the capture of the test harness, which shows no output of tests that succeed.
fn skips_card(why: &str) -> bool {
    let is_card = ground::device() != Device::Cpu;
    if is_card {
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
    }
    is_card
}

/// On the CPU, where an operator can be given a generator.
#[test]
fn another_thread_that_draws_all_the_time_changes_no_gradient() {
    let _alone = alone();
    if skips_card("on a device another thread that draws is an error") {
        return;
    }
    let w = numbers(1, &[64, 64]).set_requires_grad(true);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                drop(Tensor::rand([64], ground::floats()));
            }
        });
        let steps = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..300 {
                let _ = w.grad().defined().then(|| w.grad().zero_());
                let output = checkpoint::region(|| {
                    let h = (&w * 1.0).dropout(0.5, true);
                    cut();
                    h.exp()
                });
                output.sum(Kind::Float).backward();
                // The gradient is 2 exp(2 w) where the mask is 2, and 0 where it is 0.
                let expected = output.detach() * output.ne(1.0).to_kind(Kind::Float) * 2.0;
                assert!(w.grad().allclose(&expected, 1e-5, 1e-6, false));
            }
        }));
        is_over.store(true, Relaxed);
        steps.unwrap();
    });
}

#[test]
fn gradients_that_cannot_be_copied_are_an_error_of_measuring() {
    let _alone = alone();
    let w = Tensor::zeros([32 << 20], ground::floats()).set_requires_grad(true);
    (&w * 1.0).sum(Kind::Float).backward();
    // Copies of gradients count in no budget, so memory is really scarce.
    let _limit = set_cpu_memory_limit(used_bytes().unwrap() + (16 << 20)).unwrap();
    let costs = checkpoint::with().measure(|| w.narrow(0, 0, 16) * 2.0);
    assert!(costs.unwrap_err().to_string().contains("memory"));
}

/// A write to memory from outside begins a stage and fails, and the region ends.
#[test]
fn a_write_that_fails_last_leaves_no_stage() {
    let _alone = alone();
    let (w, buffer) =
        (numbers(1, &[64, 64]).set_requires_grad(true), Tensor::zeros([64, 64], ground::floats()));
    let (tight, wrong) = (RefCell::new(None), Tensor::ones([7], ground::floats()));
    let output = checkpoint::region(|| {
        let h = w.sigmoid().tanh().exp();
        cut();
        *tight.borrow_mut() = Some(Budget::beyond_allocated(0));
        assert!(buffer.shallow_clone().f_add_(&wrong).is_err());
        h
    });
    drop(tight.take());
    output.sum(Kind::Float).backward();
    let gradient = w.grad().copy();
    let _ = w.grad().zero_();
    w.sigmoid().tanh().exp().sum(Kind::Float).backward();
    assert_eq!(bytes(&gradient), bytes(&w.grad()));
}

/// Draws of operators that call others, which must reach the generator of the region, in every combination with an
/// offload manager.
#[test]
fn random_numbers_of_a_region_within_a_manager() {
    let _alone = alone();
    if skips_card("managers of a card are tested by the suite `offload`") {
        return;
    }
    let manager = Manager::new(&toma_torch::Device::new(Device::Cpu));
    let body = |w: &Tensor| {
        let h = (w * Tensor::randn([4, 4], FLOATS) + w.rand_like()).dropout(0.5, true);
        cut();
        h.tanh()
    };
    for [forward, backward] in [[true, true], [true, false], [false, true], [false, false]] {
        same(&format!("manager: {forward}, {backward}"), &|w, region| {
            // Another thread offloads meanwhile, in any case.
            let (ready, over) = (Barrier::new(2), Barrier::new(2));
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _entered = manager.enter().unwrap();
                    ready.wait();
                    over.wait();
                });
                ready.wait();
                tch::manual_seed(5);
                let entered = forward.then(|| manager.enter().unwrap());
                let output = region(&|| body(w));
                drop(entered);
                let entered = backward.then(|| manager.enter().unwrap());
                output.sum(Kind::Float).backward();
                drop(entered);
                over.wait();
                vec![output, Tensor::rand([4], FLOATS)]
            })
        });
    }
}

#[test]
fn a_nested_tensor_from_before_is_used_twice() {
    let _alone = alone();
    same("nested, from before", &|w, region| {
        let shapes = Tensor::from_slice(&[4_i64, 4]).view([1, 2]);
        let padded = w.to_device(Device::Cpu).unsqueeze(0);
        let nested = Tensor::internal_nested_from_padded(&padded, &shapes, false);
        let output = region(&|| {
            let h = nested.relu();
            cut();
            (h + nested.relu()).nested_to_padded_tensor(0.0, None::<&[i64]>).tanh()
        });
        output.sum(Kind::Float).backward();
        vec![output]
    });
}
