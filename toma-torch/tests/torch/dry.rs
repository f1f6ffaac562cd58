//! A dry run records the operators of a step, and leaves all state unchanged.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tch::nn::{self, OptimizerConfig as _};
use tch::{Kind, Tensor};
use toma_torch::{Error, ErrorKind, ModeGuard, RngState, dry_run, dry_run_by_shapes, record};
use toma_trace::{Place, Trace};

use crate::ground;
use crate::nets::{self, Net, Road};
use crate::nine;
use crate::peaks::peak;
use crate::rounds::rounds;
use crate::stage::{alone, caught, failing_at, panic_of, printed, size};

const NETS: [fn() -> Net; 6] = [
    nets::perceptron,
    nets::convolution,
    nets::lstm,
    || nets::transformer(0.0),
    || nets::transformer(0.5),
    nets::residual,
];

/// Operators take numbers, shapes and flags.
#[test]
fn a_recorded_step_is_written_and_read() {
    let _alone = alone();
    let net = nets::transformer(0.5);
    for trace in [record(|| step(&net, 2)), dry_run(|| step(&net, 2)).unwrap()] {
        assert!(trace.operators().any(|(_, operator)| !operator.numbers.is_empty()));
        assert_eq!(Trace::from_json(&trace.to_json()).unwrap(), trace);
    }
}

/// Forward and backward by tch's own methods.
fn step(net: &Net, rows: usize) {
    net.loss(Road::Panics, &(0..rows)).unwrap().backward();
}

/// Returns the leaf operators, each with the live bytes at its beginning, beyond those before.
fn leaves(trace: &Trace) -> Vec<(String, u64)> {
    let live = trace.live(&Place::HOST);
    let leaf = |operator: &toma_trace::Operator| {
        (operator.name.clone(), live.at(operator.interval.begin).saturating_sub(live.before()))
    };
    trace.operators().map(|(_, operator)| leaf(operator)).collect()
}

/// All state that a dry run must not change.
fn state(net: &Net) -> (Vec<Tensor>, Vec<bool>, Vec<Tensor>, RngState) {
    let gradients = net.gradients();
    let defined = gradients.iter().map(Tensor::defined).collect();
    let gradients = gradients.into_iter().filter(Tensor::defined).map(|gradient| gradient.copy()).collect();
    let variables = net.weights().into_iter().chain(net.buffers()).map(|tensor| tensor.detach().copy());
    (gradients, defined, variables.collect(), RngState::of(ground::device()).unwrap())
}

#[test]
fn a_step_leaves_everything_as_it_was() {
    let _alone = alone();
    for net in NETS {
        let net = net();
        for with_gradients in [false, true] {
            if with_gradients {
                step(&net, 8);
            }
            assert_unchanged_by(&net, || drop(dry_run(|| step(&net, 8)).unwrap()));
        }
    }
}

#[test]
fn a_dry_step_has_the_leaves_and_the_bytes_of_a_real_one() {
    let _alone = alone();
    nine::each(|net| {
        for rows in [4, 9] {
            net.forget_gradients();
            let dry = dry_run(|| net.step(rows)).unwrap();
            assert_twins(net.name, &dry, &record(|| net.step(rows)));
            // The next piece adds to gradients.
            let dry = dry_run(|| net.step(rows)).unwrap();
            assert_twins(net.name, &dry, &record(|| net.step(rows)));
        }
    });
    // Two branches of its backward are ready at once.
    let net = nets::residual();
    let dry = dry_run(|| step(&net, 4)).unwrap();
    assert_twins(net.name, &dry, &record(|| step(&net, 4)));
}

#[test]
fn autocast_chooses_types_as_in_a_real_step_and_keeps_no_dry_casts() {
    let _alone = alone();
    let input = Tensor::ones([16, 64], ground::floats());
    let weight = Tensor::ones([64, 64], ground::floats()).set_requires_grad(true);
    let step = || {
        let _modes = ModeGuard::new();
        enter_cpu_autocast();
        let output = input.matmul(&weight).matmul(&weight);
        assert_eq!(output.kind(), Kind::BFloat16);
        output.sum(Kind::Float).backward();
    };
    let dry = dry_run(step).unwrap();
    let real = record(step);
    assert_twins("autocast", &dry, &real);
    assert_eq!(peak(&dry), peak(&real));
    // In an outer autocast region, which caches casts until it ends.
    let _modes = ModeGuard::new();
    enter_cpu_autocast();
    dry_run(|| input.matmul(&weight)).unwrap();
    assert_eq!(input.matmul(&weight).double_value(&[0, 0]), 64.0);
}

/// Enters autocast on the CPU, which tch offers for CUDA only.
#[expect(unsafe_code, reason = "modes that tch does not offer")]
pub(crate) fn enter_cpu_autocast() {
    unsafe extern "C" {
        // at::autocast::set_autocast_enabled(c10::DeviceType, bool)
        #[link_name = "_ZN2at8autocast20set_autocast_enabledEN3c1010DeviceTypeEb"]
        safe fn set_autocast_enabled(kind: i8, enabled: bool);
        // at::autocast::increment_nesting()
        #[link_name = "_ZN2at8autocast17increment_nestingEv"]
        safe fn increment_nesting() -> i32;
    }
    increment_nesting();
    set_autocast_enabled(0, true);
}

#[test]
fn an_older_tensor_that_a_step_frees_is_recorded() {
    let _alone = alone();
    let mut held = Some(Tensor::zeros([1000], ground::floats()));
    let trace = record(|| {
        let made = Tensor::zeros([10], ground::floats());
        drop(held.take());
        made
    });
    let live = trace.live(&Place::HOST);
    assert_eq!((live.before(), live.peak().bytes, live.after()), (4000, 4040, 40));
}

#[test]
fn rules_give_the_shapes_that_kernels_make() {
    let _alone = alone();
    nine::each(|net| {
        for rows in [1, 5, 8] {
            let with_kernels = dry_run(|| net.step(rows)).unwrap();
            assert_twins(net.name, &dry_run_by_shapes(|| net.step(rows)).unwrap(), &with_kernels);
        }
    });
}

#[test]
fn without_gradients_dry_and_real_are_the_same_too() {
    let _alone = alone();
    // libtorch itself is not safe with an LSTM without gradients.
    nine::each(|net| {
        if net.name != "lstm" {
            let answer = || tch::no_grad(|| net.answer(9));
            assert_twins(net.name, &dry_run(answer).unwrap(), &record(answer));
        }
    });
}

#[test]
fn host_code_reads_what_it_wrote_and_zeros() {
    let _alone = alone();
    dry_run(|| {
        let tensor = Tensor::from_slice(&[1.0_f32, 2.0, 3.0]).to_device(ground::device());
        assert_eq!(Vec::<f32>::try_from(&tensor).unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(Vec::<f32>::try_from(&tensor * 2.0).unwrap(), [0.0; 3]);
    })
    .unwrap();
}

/// Operators that the nets do not call, each with its backward.
#[test]
fn rules_give_the_shapes_of_other_operators() {
    let _alone = alone();
    let input = Tensor::randn([4, 6, 10, 10], ground::floats()).set_requires_grad(true);
    let one = Tensor::ones([1], ground::floats());
    let words = Tensor::zeros([4, 3], (Kind::Int64, ground::device()));
    let (filter, turned) =
        (Tensor::ones([6, 3, 3, 2], ground::floats()), Tensor::ones([6, 4, 3, 3], ground::floats()));
    let none = None::<&Tensor>;
    let operators: [(&str, &dyn Fn() -> Tensor); 11] = [
        ("aten::where.self", &|| input.where_self(&input.gt(0.0), &one)),
        ("aten::_adaptive_avg_pool2d", &|| input.adaptive_avg_pool2d([3, 5])),
        ("aten::_adaptive_avg_pool2d", &|| input.get(0).adaptive_avg_pool2d([3, 5])),
        ("aten::convolution", &|| input.conv2d(&filter, none, [1, 2], [2, 0], [2, 1], 2)),
        ("aten::convolution", &|| input.conv_transpose2d(&turned, none, [2, 3], [1, 0], [1, 2], 1, [1, 1])),
        ("aten::convolution", &|| {
            input.flatten(2, -1).conv1d(&turned.flatten(2, -1).transpose(0, 1), none, [3], [1], [1], 1)
        }),
        ("aten::index_select", &|| input.index_select(-1, &words.flatten(0, -1))),
        ("aten::embedding", &|| Tensor::embedding(&input.flatten(1, -1), &words, -1, false, false)),
        ("aten::native_dropout", &|| input.native_dropout(0.5, true).0),
        ("aten::native_batch_norm", &|| input.batch_norm(none, none, none, none, true, 0.1, 1e-5, false)),
        ("aten::native_layer_norm", &|| input.layer_norm([10, 10], none, none, 1e-5, true)),
    ];
    for (name, operator) in operators {
        let step = || operator().square().sum(Kind::Float).backward();
        let dry = dry_run_by_shapes(step).unwrap();
        let real = record(step);
        assert_twins(name, &dry, &real);
        assert!(dry.operators().any(|(_, operator)| operator.name == name), "{name}");
        input.shallow_clone().zero_grad();
    }
}

pub(crate) fn assert_twins(name: &str, dry: &Trace, real: &Trace) {
    let (dry, real) = (leaves(dry), leaves(real));
    for (at, (dry, real)) in dry.iter().zip(&real).enumerate() {
        assert_eq!(dry, real, "{name}: leaf {at}");
    }
    assert_eq!(dry.len(), real.len(), "{name}");
}

#[track_caller]
fn assert_unchanged_by(net: &Net, work: impl FnOnce()) {
    let before = state(net);
    let (allocated, modes) = (ground::allocated_bytes(), modes());
    work();
    assert_eq!((ground::allocated_bytes(), self::modes()), (allocated, modes), "{}", net.name);
    assert_eq!(state(net), before, "{}", net.name);
}

/// Returns the grad mode, and a number that differs if operators run dry.
fn modes() -> (bool, f64) {
    let result = Tensor::ones([2], ground::floats()).set_requires_grad(true) * 2.0;
    (result.requires_grad(), result.sum(Kind::Double).double_value(&[]))
}

#[test]
fn a_failure_at_any_allocation_changes_nothing() {
    let _alone = alone();
    for net in NETS {
        let net = net();
        step(&net, 8);
        let (mut allocation, mut has_failed) = (0, true);
        while has_failed {
            assert_unchanged_by(&net, || {
                let dry = || dry_run(|| step(&net, 8));
                let ((outcome, is_refused), printed) = printed(|| failing_at(allocation, dry));
                has_failed = is_refused;
                let is_failure = |error: &Error| {
                    error.kind() == ErrorKind::OutOfMemory
                        && error.to_string().contains("a failure was injected")
                };
                let failed = outcome.is_err_and(|error| is_failure(&error));
                assert_eq!((failed, printed), (has_failed, 0), "{} at {allocation}", net.name);
            });
            allocation += 1;
        }
    }
}

#[test]
fn a_panic_anywhere_changes_nothing_and_is_printed_once() {
    let _alone = alone();
    let net = nets::transformer(0.5);
    step(&net, 8);
    let places: [fn(&Net); 4] = [
        |_| panic!("the stress test: at once"),
        |net| {
            step(net, 8);
            panic!("the stress test: after backward");
        },
        |net| tch::no_grad(|| drop(net.loss(Road::Panics, &(0..99)))),
        |net| {
            tch::manual_seed(99);
            let _loss = net.loss(Road::Panics, &(0..8)).unwrap();
            tch::no_grad(|| panic!("the stress test: with a graph in hand"));
        },
    ];
    for (at, place) in places.iter().enumerate() {
        assert_unchanged_by(&net, || {
            let (outcome, printed) = printed(|| caught(|| drop(dry_run(|| place(&net)))));
            assert_eq!((outcome.is_err(), printed), (true, 1), "{at}");
        });
    }
}

#[test]
fn operators_are_as_many_as_there_are_layers() {
    let _alone = alone();
    let input = Tensor::ones([4, 8], ground::floats()).set_requires_grad(true);
    let operators = |depth| {
        let step = || (0..depth).fold(&input + 0.0, |x, _| &x + x.relu()).sum(Kind::Float).backward();
        dry_run(step).unwrap().operators().len()
    };
    assert_eq!(operators(16) - operators(8), 2 * (operators(8) - operators(4)));
}

#[test]
fn many_runs_of_two_threads_change_nothing_and_leave_nothing() {
    let _alone = alone();
    let each = rounds(150, 500);
    let address_space = || memory_map_lines();
    let net = nets::transformer(0.5);
    step(&net, 8);
    dry_run(|| step(&net, 8)).unwrap();
    let shared = Mutex::new(nets::convolution());
    assert_unchanged_by(&net, || {
        let before = address_space();
        thread::scope(|scope| {
            scope.spawn(|| {
                // Threads of its operators would have stacks, which are regions; the number is per thread.
                tch::set_num_threads(1);
                let net = shared.lock().unwrap();
                for _ in 0..each {
                    dry_run(|| step(&net, 5)).unwrap();
                }
            });
            for _ in 0..each {
                dry_run(|| step(&net, 8)).unwrap();
            }
        });
        assert!(address_space() < before + 20, "{} regions, before {before}", address_space());
    });
}

/// Tensors that a dry run only reads without gradients are not touched: another thread's gradients come and go.
#[test]
fn a_dry_evaluation_beside_a_training_thread_leaves_its_gradients_alone() {
    let _alone = alone();
    let variables = nn::VarStore::new(ground::device());
    let weight = variables.root().ones("weight", &[64]);
    let mut optimizer = nn::Sgd::default().build(&variables, 0.0).unwrap();
    let (read, is_done) = (weight.shallow_clone(), &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                dry_run(|| tch::no_grad(|| (0..20).for_each(|_| drop(&read * 2.0)))).unwrap();
            }
        });
        let lost = (0..3000).filter(|_| {
            optimizer.zero_grad();
            (&weight * 3.0).sum(None).backward();
            let gradient = weight.grad();
            !gradient.defined() || gradient.double_value(&[0]) != 3.0
        });
        let lost = lost.count();
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(lost, 0);
    });
}

fn memory_map_lines() -> usize {
    std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count())
}

#[test]
fn an_operator_that_cannot_run_dry_is_refused_by_its_name() {
    let _alone = alone();
    let weight = Tensor::ones([4, 4], ground::floats()).set_requires_grad(true);
    let outside = &weight * 2.0;
    let mut kept = None;
    panic_of(|| drop(dry_run(|| kept = Some(Tensor::ones([4, 4], ground::floats())))));
    let kept = kept.unwrap();
    let quantized = weight.detach().quantize_per_tensor(0.1, 0, Kind::QInt8);
    let total = Tensor::zeros([], ground::floats());
    let bodies: [(&str, &dyn Fn() -> Tensor); 9] = [
        ("aten::add_.Tensor: gives a gradient to a tensor from outside of the body", &|| {
            total.shallow_clone().g_add_(&weight.sum(None))
        }),
        ("aten::mul.Tensor: takes a tensor whose gradient leads into a graph", &|| &outside * &outside),
        ("aten::mm: takes a tensor that was kept from another dry run", &|| weight.mm(&kept)),
        ("aten::resize_: would change the shape of a tensor from outside", &|| weight.detach().resize_([2])),
        ("aten::bincount: the shape of its result depends on data", &|| {
            Tensor::zeros([4], (Kind::Int64, ground::device())).bincount(None::<&Tensor>, 0)
        }),
        ("aten::_to_sparse: makes a tensor of layout Sparse", &|| {
            weight.detach().to_sparse(None, None::<i64>, None) + 1.0
        }),
        ("aten::quantize_per_tensor: makes a quantized tensor", &|| {
            weight.detach().quantize_per_tensor(0.1, 0, Kind::QInt8).dequantize()
        }),
        ("takes a quantized tensor", &|| quantized.dequantize()),
        ("within another dry run", &|| {
            dry_run(|| ()).unwrap();
            Tensor::new()
        }),
    ];
    for (reason, body) in bodies {
        let (outcome, printed) = printed(|| caught(|| dry_run(|| drop(body()))));
        match outcome {
            Ok(error) => {
                let error = error.expect_err(reason);
                assert_eq!((error.kind(), printed), (ErrorKind::Unsupported, 0), "{error}");
                assert!(error.to_string().contains(reason), "{error}");
            }
            Err(panic) => assert!(panic.contains(reason), "{panic}"),
        }
    }
    assert!(!total.requires_grad());
}

/// All numbers read as 1 in a dry run, so a loop that waits for a small number never ends.
#[test]
fn a_loop_that_never_ends_is_refused() {
    let _alone = alone();
    let error = Tensor::ones([1], ground::floats());
    let step = || while error.double_value(&[0]) > 0.1 {};
    let (outcome, printed) = printed(|| caught(|| dry_run(step)));
    let refused = outcome.unwrap().unwrap_err();
    assert_eq!((refused.kind(), printed), (ErrorKind::Unsupported, 0), "{refused}");
    let reason = "one more than 262144 operators: a loop that waits for data does not end";
    assert!(refused.to_string().ends_with(reason), "{refused}");
}

#[test]
fn a_body_that_keeps_a_dry_tensor_panics_with_operator_and_bytes() {
    let _alone = alone();
    let mut kept = None;
    let text = panic_of(|| drop(dry_run(|| kept = Some(Tensor::ones([64, 64], ground::floats())))));
    assert!(text.contains("kept 1 tensors of 16384 bytes") && text.contains("ones"), "{text}");
    drop(kept);
}

#[test]
fn results_that_depend_on_data_are_assumed() {
    let _alone = alone();
    let data = Tensor::zeros([size(6), 2], ground::floats());
    dry_run(|| {
        assert_eq!(data.sum(Kind::Float).double_value(&[]), 1.0);
        assert_eq!(data.nonzero().size(), [12, 2]);
        assert_eq!(data.masked_select(&data.gt(0.0)).size(), [12]);
        let column = Tensor::zeros([size(6), 1], ground::floats());
        assert_eq!(column.masked_select(&column.gt(0.0).transpose(0, 1)).size(), [36]);
        assert_eq!(data.index(&[Some(data.select(1, 0).gt(0.0))]).size(), [6, 2]);
    })
    .unwrap();
}

/// Runs `work` with `tensor` on another thread, which a dry run of this one does not reach.
fn on_another_thread<R: Send>(tensor: &Tensor, work: impl Fn(Tensor) -> R + Sync) -> R {
    let moved = std::sync::Mutex::new(Some(tensor.shallow_clone()));
    thread::scope(|scope| scope.spawn(|| work(moved.lock().unwrap().take().unwrap())).join().unwrap())
}

#[test]
fn training_of_another_thread_is_not_affected() {
    let _alone = alone();
    let w = Tensor::ones([4], ground::floats()).set_requires_grad(true);
    let mut loss = None;
    dry_run(|| {
        let _seen = &w * 2.0;
        loss = Some(on_another_thread(&w, |mut w| {
            (&w * 3.0).sum(Kind::Float).backward();
            tch::no_grad(|| drop(w.g_add_scalar_(1.0)));
            w.square().sum(Kind::Float)
        }));
    })
    .unwrap();
    assert_eq!(w.grad(), Tensor::ones([4], ground::floats()) * 3.0);
    loss.unwrap().backward();
    assert_eq!(w.grad(), Tensor::ones([4], ground::floats()) * 7.0);
}

#[test]
fn a_backward_of_another_thread_on_a_gradient_of_a_dry_run_is_refused() {
    let _alone = alone();
    let w = Tensor::ones([4], ground::floats()).set_requires_grad(true);
    let mut refused = None;
    dry_run(|| {
        w.square().sum(Kind::Float).backward();
        refused = on_another_thread(&w, |w| (&w * 3.0).sum(Kind::Float).f_backward().err());
    })
    .unwrap();
    let text = refused.expect("it would be lost").to_string();
    assert!(text.contains("train no variable while another thread predicts"), "{text}");
    assert!(!w.grad().defined());
}
