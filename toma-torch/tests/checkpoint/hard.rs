//! Programs that are hard to recompute, in plain libtorch and as regions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crate::ground::{self, FailingAllocation};
use tch::nn::{self, ModuleT as _, VarStore};
use tch::{Kind, Tensor};
use toma_torch::checkpoint::{self, Solver, cut};

use crate::kit::{Step, alone, bytes, numbers, same, stages};

fn variable() -> Tensor {
    numbers(1, &[4, 4]).set_requires_grad(true)
}

/// Also compares the hashes of recomputed tensors.
fn is_the_same(name: &str, step: Step<'_>) {
    same(name, checkpoint::with().verify(true), step);
}

/// Compares a program that trains its first argument and may write to the second one.
fn same_of_two(name: &str, program: impl Fn(&Tensor, &Tensor) -> Tensor) {
    is_the_same(name, &|w, region| {
        let x = numbers(2, &[4, 4]);
        let output = region(&|| program(w, &x));
        output.sum(Kind::Float).backward();
        vec![output, x]
    });
}

/// The mean and the variance to begin with.
fn statistics() -> [Tensor; 2] {
    [Tensor::zeros([4], ground::floats()), Tensor::ones([4], ground::floats())]
}

#[test]
fn statistics_that_are_read_and_then_updated() {
    let _alone = alone();
    is_the_same("statistics", &|w, region| {
        let vs = VarStore::new(ground::device());
        let norm = nn::batch_norm1d(vs.root(), 4, nn::BatchNormConfig::default());
        let output = region(&|| {
            let a = norm.forward_t(&w.tanh(), true);
            cut();
            let b = norm.forward_t(&a.sigmoid(), false).tanh();
            cut();
            norm.forward_t(&b, true).tanh()
        });
        output.sum(Kind::Float).backward();
        let variables = vs.variables();
        let written = ["running_mean", "running_var"].map(|name| variables[name].shallow_clone());
        written.into_iter().chain([output]).collect()
    });
}

#[test]
fn statistics_of_operators_that_always_update_them() {
    let _alone = alone();
    is_the_same("update stats", &|w, region| {
        let (x, statistics) = (numbers(2, &[4, 4]), statistics());
        let output = region(&|| {
            let h = (&x + w).tanh();
            let [mean, variance] = statistics.each_ref().map(Some);
            let (a, b) = tch::no_grad(|| h.batch_norm_update_stats(mean, variance, 0.1));
            cut();
            ((h - a) * b).sigmoid()
        });
        output.sum(Kind::Float).backward();
        statistics.into_iter().chain([output]).collect()
    });
}

#[test]
fn statistics_of_instance_norm() {
    let _alone = alone();
    is_the_same("instance norm", &|w, region| {
        let statistics = statistics();
        let output = region(&|| {
            let [mean, variance] = statistics.each_ref().map(Some);
            let input = w.reshape([1, 4, 4]);
            let none = None::<&Tensor>;
            input.instance_norm(none, none, mean, variance, true, 0.1, 1e-5, false).tanh()
        });
        output.sum(Kind::Float).backward();
        statistics.into_iter().chain([output]).collect()
    });
}

#[test]
fn shapes_that_change_in_place() {
    let _alone = alone();
    same_of_two("t_", |w, x| {
        let mut x = x.shallow_clone();
        let a = (&x + w).tanh();
        cut();
        let _ = x.t_();
        cut();
        let b = (&x + w).tanh();
        cut();
        let sum = (a + b).sigmoid();
        let _ = x.t_();
        sum
    });
}

#[test]
fn other_memory_in_the_same_tensor() {
    let _alone = alone();
    let n = numbers(3, &[4, 4]);
    same_of_two("set_data", |w, x| {
        let mut other = w.shallow_clone();
        let a = (x + w).tanh();
        cut();
        other.set_data(&n);
        cut();
        let b = (x + w).tanh();
        cut();
        (b.matmul(w) + a).sigmoid()
    });
}

#[test]
fn other_memory_in_a_tensor_of_the_region() {
    let _alone = alone();
    same_of_two("straight through", |w, x| {
        let h = (x + w) * 3.0;
        let mut rounded = &h * 1.0;
        rounded.set_data(&h.round());
        let a = rounded.matmul(w);
        cut();
        (a * &rounded).sigmoid()
    });
}

#[test]
fn data_of_a_tensor_in_another_shape_or_type() {
    let _alone = alone();
    same_of_two("reshaped", |w, x| {
        let rows = (x * 1.0).view([2, 8]).data();
        let scale = rows.sum_dim_intlist(0, false, Kind::Float).max();
        (w * scale).tanh()
    });
    same_of_two("other type", |w, x| {
        let bits = (x * 1.0).view_dtype(Kind::Int).data();
        let scale = bits.bitwise_and(0xff).max().to_kind(Kind::Float);
        (w * scale * 0.01).tanh()
    });
}

/// The CPU counts the bytes of each thread, so such a backward shows no costs.
#[test]
fn a_region_whose_backward_runs_on_another_thread() {
    let _alone = alone();
    let _allocated_elsewhere = Tensor::ones([1 << 20], ground::floats());
    let (x, w) = (numbers(2, &[4, 4]), variable());
    let form = checkpoint::with().name("backward elsewhere").budget(1 << 20);
    let net = || {
        let (x, w) = (x.shallow_clone(), w.shallow_clone());
        move || stages(4, &x, |x| x.matmul(&w).tanh())
    };
    for round in 1..4 {
        let net = net();
        let loss = thread::scope(|scope| scope.spawn(move || form.region(net).sum(Kind::Float)).join());
        loss.unwrap().backward();
        assert!(form.known().is_none(), "round {round}");
    }
    let taken = w.grad().copy();
    let _ = w.grad().zero_();
    (0..3).for_each(|_| net()().sum(Kind::Float).backward());
    assert_eq!(bytes(&taken), bytes(&w.grad()));
}

#[test]
fn writes_that_no_operator_of_the_region_makes() {
    let _alone = alone();
    same_of_two("data", |w, x| {
        let mut a = tch::no_grad(|| x + 1.0);
        let d = a.data();
        let y = (&d + w).tanh();
        cut();
        let _ = tch::no_grad(|| a.g_mul_scalar_(0.5));
        cut();
        (y + a).sigmoid()
    });
}

#[test]
fn writes_past_the_graph_into_what_is_saved() {
    let _alone = alone();
    let halved = |tensor: &Tensor| {
        let mut data = tensor.data();
        cut();
        let _ = data.g_mul_scalar_(0.5);
        cut();
    };
    same_of_two("data of a result", |w, x| {
        let h = x.matmul(w).tanh();
        cut();
        halved(&h);
        h.matmul(w)
    });
    same_of_two("data of an argument", |w, x| {
        let h = x.matmul(w).sigmoid();
        cut();
        let y = h.matmul(w).tanh();
        cut();
        halved(&h);
        y.matmul(w).sigmoid() + h.matmul(&y)
    });
    same_of_two("data of a view", |w, x| {
        let h = x.matmul(w).exp();
        let y = h.tr().matmul(w).tanh();
        halved(&h.narrow(0, 1, 2));
        y + h
    });
}

/// Returns the gradient or error, plain and in a region, after the first argument of `used` was detached in place.
fn detached(name: &str, used: impl Fn(&Tensor, &Tensor) -> Tensor) -> [Result<Vec<u8>, String>; 2] {
    let _alone = alone();
    let (w, x) = (variable(), numbers(2, &[4, 4]));
    let run = || {
        let mut h = x.matmul(&w).sigmoid();
        cut();
        let y = used(&h, &w);
        cut();
        let _ = h.detach_();
        y.tanh()
    };
    let gradient = |output: Tensor| {
        let gradients = Tensor::f_run_backward(&[output.sum(Kind::Float)], &[&w], false, false);
        gradients.map(|gradients| bytes(&gradients[0])).map_err(|error| error.to_string())
    };
    [gradient(run()), gradient(checkpoint::with().name(name).region(run))]
}

#[test]
fn tensors_that_are_saved_and_then_detached_in_place() {
    let [plain, region] = detached("detached argument", Tensor::matmul);
    assert!(plain.is_err());
    assert!(region.unwrap_err().contains("a tensor that aten::matmul saved was detached in place"));
    let [plain, region] = detached("detached result", |h, _| h + 1.0);
    assert_eq!(region.unwrap(), plain.unwrap());
}

#[test]
fn a_counter_before_an_operator_in_place() {
    let _alone = alone();
    is_the_same("counter", &|w, region| {
        let (x, count) = (numbers(2, &[4, 4]), Tensor::zeros([1], ground::floats()));
        let output = region(&|| {
            let mut h = x.matmul(w).tanh() + 1.0;
            cut();
            let _ = tch::no_grad(|| count.shallow_clone().g_add_scalar_(1.0));
            let h = h.relu_();
            cut();
            h.matmul(w).tanh()
        });
        output.sum(Kind::Float).backward();
        vec![output, count]
    });
}

#[test]
fn views_of_memory_from_before() {
    let _alone = alone();
    same_of_two("detached", |w, x| {
        let mut d = x.detach();
        cut();
        let _ = d.tanh_();
        cut();
        (&d + w).tanh()
    });
    same_of_two("narrowed", |w, x| {
        let view = x.narrow(0, 0, 4);
        cut();
        let a = (&view + w).tanh();
        cut();
        let _ = x.shallow_clone().g_add_scalar_(1.0);
        cut();
        (a + &view).sigmoid()
    });
    is_the_same("cached", &|w, region| {
        let cache = Tensor::zeros([8, 4], ground::floats());
        let output = region(&|| {
            let q = w.tanh();
            let mut slot = cache.narrow(0, 0, 4);
            cut();
            slot.copy_(&q.detach());
            cut();
            q.matmul(&slot.tr())
        });
        output.sum(Kind::Float).backward();
        vec![output, cache]
    });
}

#[test]
fn leaves_made_inside() {
    let _alone = alone();
    same_of_two("leaf after a write", |w, x| {
        let mut e = x.rand_like();
        let _ = e.g_mul_scalar_(0.1);
        let e = e.set_requires_grad(true);
        (&e * w).tanh()
    });
    same_of_two("write after a leaf", |w, x| {
        let mut e = (x * 2.0).set_requires_grad(true);
        let _ = tch::no_grad(|| e.g_mul_scalar_(0.5));
        (&e * w).tanh()
    });
}

/// A form within a region may run its body dry.
#[test]
fn dry_runs_inside_are_no_part_of_the_region() {
    let _alone = alone();
    let layers = [3, 4, 5].map(|seed| numbers(seed, &[4, 4]));
    let deep = || {
        layers.iter().fold(Tensor::ones([4, 4], ground::floats()), |h, layer| {
            cut();
            h.matmul(layer).tanh()
        })
    };
    same_of_two("dry runs inside", |w, x| {
        let h = x.matmul(w).tanh();
        cut();
        toma_torch::dry_run(deep).unwrap();
        let features = toma_torch::forward(x, |rows| rows.matmul(&layers[0]).exp());
        cut();
        (h * features).matmul(w).sigmoid()
    });
}

#[test]
fn random_numbers_of_regions_on_two_threads() {
    let _alone = alone();
    let step = || {
        let w = Tensor::ones([64], ground::floats()).set_requires_grad(true);
        for _ in 0..200 {
            let output = checkpoint::with().verify(true).region(|| {
                let h = (&w * 1.0).dropout(0.5, true);
                cut();
                h.exp()
            });
            // The gradient is the output times the mask's factor where the dropout kept an element, and 0 elsewhere.
            let factor = output.log();
            output.sum(Kind::Float).backward();
            assert_eq!(w.grad(), &output * factor);
            let _ = w.grad().zero_();
        }
    };
    thread::scope(|scope| [scope.spawn(step), scope.spawn(step)].map(|thread| thread.join().unwrap()));
}

#[test]
fn a_backward_that_failed_can_be_tried_again() {
    let _alone = alone();
    let (w, form) = (variable(), checkpoint::with().name("again"));
    let net = || stages(6, &numbers(2, &[4, 4]), |h| h.matmul(&w).tanh().sigmoid());
    let costs = form.measure(net).unwrap();
    let leanest = costs.plan(costs.least_bytes(), Solver::Auto).unwrap();
    let gradient = |loss: &Tensor| Tensor::f_run_backward(&[loss], &[&w], true, false);
    let expected = bytes(&gradient(&net().sum(Kind::Float)).unwrap()[0]);
    for skip in 0.. {
        let loss = form.plan(&leanest).region(net).sum(Kind::Float);
        let failing = FailingAllocation::after(skip);
        let failed = catch_unwind(AssertUnwindSafe(|| gradient(&loss).map(drop)));
        let has_failed = failing.has_failed();
        drop(failing);
        assert_eq!(failed.is_ok_and(|result| result.is_ok()), !has_failed);
        assert_eq!(bytes(&gradient(&loss).unwrap()[0]), expected, "after failure {skip}");
        if !has_failed {
            break;
        }
    }
}

#[test]
fn a_partition_of_a_fixed_count_fits_what_is_free() {
    let _alone = alone();
    let w = variable();
    let form = checkpoint::with().solver(Solver::SqrtN).name("fixed");
    for _ in 0..3 {
        let output = form.region(|| {
            let h = w.dropout(0.5, true);
            cut();
            h + 1.0
        });
        output.sum(Kind::Float).backward();
    }
    assert!(checkpoint::last().unwrap().plan().is_some());
}

#[test]
fn measuring_puts_back_what_views_wrote_and_what_was_seeded() {
    let _alone = alone();
    let (w, buffer) = (variable(), numbers(2, &[4, 4]));
    let before = bytes(&buffer);
    tch::manual_seed(5);
    let expected = bytes(&Tensor::rand([4], ground::floats()));
    tch::manual_seed(5);
    let measured = checkpoint::with().measure(|| {
        tch::manual_seed(9);
        let _ = buffer.narrow(0, 1, 2).g_mul_scalar_(3.0);
        (w.dropout(0.5, true) + &buffer).tanh()
    });
    measured.unwrap();
    assert_eq!(bytes(&buffer), before);
    assert_eq!(bytes(&Tensor::rand([4], ground::floats())), expected);
}

#[test]
fn measuring_refuses_a_gradient_in_place_that_it_could_not_put_back() {
    let _alone = alone();
    let (w, total) = (variable(), numbers(2, &[4, 4]));
    let measured = checkpoint::with().measure(|| {
        let error = total.shallow_clone().f_add_(&w).unwrap_err().to_string();
        assert!(error.contains("gives a gradient to a tensor from outside of the region"), "{error}");
        w.tanh()
    });
    measured.unwrap();
    assert!(!total.requires_grad());
}
