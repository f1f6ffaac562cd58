//! Programs that are hard to recompute, in plain libtorch and as regions.

#![expect(clippy::many_single_char_names, reason = "as in formulas")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crate::ground::{self, FailingAllocation};
use tch::nn::{self, ModuleT as _, VarStore};
use tch::{Kind, Tensor};
use toma_torch::checkpoint::{self, Solver, cut};

use crate::kit::{alone, bytes};

/// A program, the variable that it trains, and the tensors that it may write to.
struct Program {
    w: Tensor,
    written: Vec<Tensor>,
    run: Box<dyn Fn() -> Tensor>,
}

/// Returns the result of a run: the output, the gradient, and the written tensors.
fn left(program: &Program, region: impl FnOnce(&dyn Fn() -> Tensor) -> Tensor) -> Vec<Vec<u8>> {
    tch::manual_seed(11);
    let output = region(&*program.run);
    output.sum(Kind::Float).backward();
    let all = [&output, &program.w.grad()].into_iter().map(bytes).collect::<Vec<_>>();
    all.into_iter().chain(program.written.iter().map(bytes)).collect()
}

/// Checks that the first run and a run by the leanest plan have the same result as the plain run.
fn same(name: &str, program: impl Fn() -> Program) {
    let _alone = alone();
    let program = || {
        tch::manual_seed(3);
        program()
    };
    let plain = left(&program(), |run| run());
    let form = checkpoint::with().name(name).verify(true);
    assert_eq!(left(&program(), |run| form.region(run)), plain, "{name}: first run");
    let least = form.known().expect("backward has run").least_bytes();
    for _ in 0..2 {
        assert_eq!(left(&program(), |run| form.budget(least).region(run)), plain, "{name}: planned");
    }
}

fn numbers(seed: i64) -> Tensor {
    tch::manual_seed(seed);
    Tensor::randn([4, 4], ground::floats())
}

fn variable() -> Tensor {
    numbers(1).set_requires_grad(true)
}

#[test]
fn statistics_that_are_read_and_then_updated() {
    same("statistics", || {
        let vs = VarStore::new(ground::device());
        let norm = nn::batch_norm1d(vs.root(), 4, nn::BatchNormConfig::default());
        let w = variable();
        let x = w.shallow_clone();
        let variables = vs.variables();
        let written = ["running_mean", "running_var"].map(|name| variables[name].shallow_clone()).into();
        let run = move || {
            let a = norm.forward_t(&x.tanh(), true);
            cut();
            let b = norm.forward_t(&a.sigmoid(), false).tanh();
            cut();
            norm.forward_t(&b, true).tanh()
        };
        Program { w, written, run: Box::new(run) }
    });
}

#[test]
fn statistics_of_operators_that_always_update_them() {
    same("update stats", || {
        let (w, x) = (variable(), numbers(2));
        let statistics = [Tensor::zeros([4], ground::floats()), Tensor::ones([4], ground::floats())];
        let written = statistics.iter().map(Tensor::shallow_clone).collect();
        let v = w.shallow_clone();
        let run = move || {
            let h = (&x + &v).tanh();
            let [mean, variance] = statistics.each_ref().map(Some);
            let (a, b) = tch::no_grad(|| h.batch_norm_update_stats(mean, variance, 0.1));
            cut();
            ((h - a) * b).sigmoid()
        };
        Program { w, written, run: Box::new(run) }
    });
}

#[test]
fn statistics_of_instance_norm() {
    same("instance norm", || {
        let w = variable();
        let statistics = [Tensor::zeros([4], ground::floats()), Tensor::ones([4], ground::floats())];
        let written = statistics.iter().map(Tensor::shallow_clone).collect();
        let v = w.shallow_clone();
        let run = move || {
            let [mean, variance] = statistics.each_ref().map(Some);
            let input = v.reshape([1, 4, 4]);
            let none = None::<&Tensor>;
            input.instance_norm(none, none, mean, variance, true, 0.1, 1e-5, false).tanh()
        };
        Program { w, written, run: Box::new(run) }
    });
}

#[test]
fn shapes_that_change_in_place() {
    same("t_", || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let mut x = x.shallow_clone();
            let a = (&x + &v).tanh();
            cut();
            let _ = x.t_();
            cut();
            let b = (&x + &v).tanh();
            cut();
            let sum = (a + b).sigmoid();
            let _ = x.t_();
            sum
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
}

#[test]
fn other_memory_in_the_same_tensor() {
    same("set_data", || {
        let (w, x, n, old) = (variable(), numbers(2), numbers(3), numbers(1));
        let v = w.shallow_clone();
        let run = move || {
            let mut other = v.shallow_clone();
            let a = (&x + &v).tanh();
            cut();
            other.set_data(&n);
            cut();
            let b = (&x + &v).tanh();
            cut();
            let product = (b.matmul(&v) + a).sigmoid();
            let _ = &old;
            product
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
}

#[test]
fn other_memory_in_a_tensor_of_the_region() {
    same("straight through", || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let h = (&x + &v) * 3.0;
            let mut rounded = &h * 1.0;
            rounded.set_data(&h.round());
            let a = rounded.matmul(&v);
            cut();
            (a * &rounded).sigmoid()
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
}

#[test]
fn data_of_a_tensor_in_another_shape_or_type() {
    same("reshaped", || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let rows = (&x * 1.0).view([2, 8]).data();
            let scale = rows.sum_dim_intlist(0, false, Kind::Float).max();
            (&v * scale).tanh()
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
    same("other type", || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let bits = (&x * 1.0).view_dtype(Kind::Int).data();
            let scale = bits.bitwise_and(0xff).max().to_kind(Kind::Float);
            (&v * scale * 0.01).tanh()
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
}

/// The CPU counts the bytes of each thread, so such a backward shows no costs.
#[test]
fn a_region_whose_backward_runs_on_another_thread() {
    let _alone = alone();
    let _allocated_elsewhere = Tensor::ones([1 << 20], ground::floats());
    let (x, w) = (numbers(2), variable());
    let form = checkpoint::with().name("backward elsewhere").budget(1 << 20);
    let net = || {
        let (x, w) = (x.shallow_clone(), w.shallow_clone());
        move || {
            (0..4).fold(x.shallow_clone(), |x, _| {
                cut();
                x.matmul(&w).tanh()
            })
        }
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
    same("other thread", || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let a = tch::no_grad(|| &x + 1.0);
            let mut b = a.shallow_clone();
            let _ = thread::spawn(move || tch::no_grad(|| b.g_add_scalar_(1.0))).join().unwrap();
            let d = (&a + &v).tanh();
            cut();
            d.matmul(&v).sigmoid()
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
    same("data", || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let mut a = tch::no_grad(|| &x + 1.0);
            let d = a.data();
            let y = (&d + &v).tanh();
            cut();
            let _ = tch::no_grad(|| a.g_mul_scalar_(0.5));
            cut();
            (y + a).sigmoid()
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
}

#[test]
fn writes_past_the_graph_into_what_is_saved() {
    let halved = |tensor: &Tensor| {
        let mut data = tensor.data();
        cut();
        let _ = data.g_mul_scalar_(0.5);
        cut();
    };
    same("data of a result", move || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let h = x.matmul(&v).tanh();
            cut();
            halved(&h);
            h.matmul(&v)
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
    same("data of an argument", move || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let h = x.matmul(&v).sigmoid();
            cut();
            let y = h.matmul(&v).tanh();
            cut();
            halved(&h);
            y.matmul(&v).sigmoid() + h.matmul(&y)
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
    same("data of a view", move || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let h = x.matmul(&v).exp();
            let y = h.tr().matmul(&v).tanh();
            halved(&h.narrow(0, 1, 2));
            y + h
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
}

/// Returns the gradient or error, plain and in a region, after the first argument of `used` was detached in place.
fn detached(name: &str, used: impl Fn(&Tensor, &Tensor) -> Tensor) -> [Result<Vec<u8>, String>; 2] {
    let _alone = alone();
    let (w, x) = (variable(), numbers(2));
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
    same("counter", || {
        let (w, x, count) = (variable(), numbers(2), Tensor::zeros([1], ground::floats()));
        let (v, written) = (w.shallow_clone(), vec![count.shallow_clone()]);
        let run = move || {
            let mut h = x.matmul(&v).tanh() + 1.0;
            cut();
            let _ = tch::no_grad(|| count.shallow_clone().g_add_scalar_(1.0));
            let h = h.relu_();
            cut();
            h.matmul(&v).tanh()
        };
        Program { w, written, run: Box::new(run) }
    });
}

#[test]
fn views_of_memory_from_before() {
    same("detached", || {
        let (w, x) = (variable(), numbers(2));
        let (v, written) = (w.shallow_clone(), vec![x.shallow_clone()]);
        let run = move || {
            let mut d = x.detach();
            cut();
            let _ = d.tanh_();
            cut();
            (&d + &v).tanh()
        };
        Program { w, written, run: Box::new(run) }
    });
    same("narrowed", || {
        let (w, x) = (variable(), numbers(2));
        let (v, written) = (w.shallow_clone(), vec![x.shallow_clone()]);
        let run = move || {
            let view = x.narrow(0, 0, 4);
            cut();
            let a = (&view + &v).tanh();
            cut();
            let _ = x.shallow_clone().g_add_scalar_(1.0);
            cut();
            (a + &view).sigmoid()
        };
        Program { w, written, run: Box::new(run) }
    });
    same("cached", || {
        let (w, cache) = (variable(), Tensor::zeros([8, 4], ground::floats()));
        let (v, written) = (w.shallow_clone(), vec![cache.shallow_clone()]);
        let run = move || {
            let q = v.tanh();
            let mut slot = cache.narrow(0, 0, 4);
            cut();
            slot.copy_(&q.detach());
            cut();
            q.matmul(&slot.tr())
        };
        Program { w, written, run: Box::new(run) }
    });
}

#[test]
fn leaves_made_inside() {
    same("leaf after a write", || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let mut e = x.rand_like();
            let _ = e.g_mul_scalar_(0.1);
            let e = e.set_requires_grad(true);
            (&e * &v).tanh()
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
    });
    same("write after a leaf", || {
        let (w, x) = (variable(), numbers(2));
        let v = w.shallow_clone();
        let run = move || {
            let mut e = (&x * 2.0).set_requires_grad(true);
            let _ = tch::no_grad(|| e.g_mul_scalar_(0.5));
            (&e * &v).tanh()
        };
        Program { w, written: Vec::new(), run: Box::new(run) }
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
    let net = || {
        (0..6).fold(numbers(2), |h, _| {
            cut();
            h.matmul(&w).tanh().sigmoid()
        })
    };
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
    let (w, buffer) = (variable(), numbers(2));
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
