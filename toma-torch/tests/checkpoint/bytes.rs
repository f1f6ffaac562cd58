//! A plan's predicted peak against the peak of its run: never less, and hardly more.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use crate::ground::{self, Budget, peak_of};
use tch::nn::{self, ModuleT as _, OptimizerConfig as _, VarStore};
use tch::{Kind, Tensor};
use toma_core::classify::{Class, Classify as _};
use toma_torch::accumulate_gradients;
use toma_torch::checkpoint::{self, Solver, With};

use crate::kit::{Net, alone, drop_stranded, give_gradients, plans, stages, with_gradient};
use crate::nets;

/// Tolerated difference on a card, which counts whole blocks.
static BLOCKS_BYTES: LazyLock<u64> = LazyLock::new(|| if ground::is_card() { 16 << 10 } else { 0 });

#[test]
fn the_predicted_peak_is_that_of_the_run_and_a_budget_of_it_is_enough() {
    let _alone = alone();
    // A tensor used by a later stage counts at each stage boundary in between that is held.
    let by_passing = [(nets::transformer(), 15)];
    for (net, percent) in
        [(nets::residual(), 1), (nets::unmarked(), 1), (nets::recurrent(), 1)].into_iter().chain(by_passing)
    {
        let name = format!("bytes {}", net.name);
        let form = checkpoint::with().name(&name);
        // The kernels have cached by the second run, from which the region learns the costs.
        net.train(|forward| forward());
        net.train(|forward| form.region(forward));
        for plan in plans(&form.known().unwrap(), 2) {
            let form = form.plan(&plan);
            let run = |net: &Net| net.train(|forward| form.region(forward));
            let measured = peak_of(|| run(&net));
            let predicted = plan.peak_bytes();
            assert!(measured <= predicted, "{}: {measured} of {predicted}: {plan}", net.name);
            let most = measured * (100 + percent) / 100 + *BLOCKS_BYTES;
            assert!(predicted <= most, "{}: {measured} of {predicted}: {plan}", net.name);
            if ground::is_card() {
                net.put_back();
                continue;
            }
            let enough = Budget::beyond_allocated(predicted);
            run(&net);
            drop(enough);
            let lacking = Budget::beyond_allocated(measured - 1);
            assert!(catch_unwind(AssertUnwindSafe(|| run(&net))).is_err(), "{}: {plan}", net.name);
            drop(lacking);
            drop_stranded();
            net.put_back();
        }
    }
}

/// Trains steps whose backward starts from the outputs of a region, by every solver in several budgets: no step takes
/// more than is planned, and the leanest plan takes hardly less.
fn never_above_the_plan<R>(name: &str, net: impl Fn() -> R, backward: impl Fn(R)) {
    let form = checkpoint::with().name(name);
    (0..2).for_each(|_| backward(form.enabled(false).region(&net)));
    backward(form.region(&net));
    let costs = form.known().unwrap();
    let least = costs.least_bytes();
    for plan in plans(&costs, 4) {
        let measured = peak_of(|| backward(form.plan(&plan).region(&net)));
        assert!(measured <= plan.peak_bytes(), "{name}: {measured} bytes of {plan}");
        let is_leanest = plan.peak_bytes() == least;
        assert!(
            !is_leanest || measured + measured / 32 + *BLOCKS_BYTES >= least,
            "{name}: {measured} bytes of {plan}"
        );
    }
}

fn weight() -> Tensor {
    with_gradient(&Tensor::ones([64, 64], ground::floats()))
}

/// Weights without gradients.
fn model() -> [Tensor; 4] {
    [0, 1, 2, 3].map(|_| Tensor::randn([64, 64], ground::floats()).set_requires_grad(true))
}

fn through(model: &[Tensor], rows: &Tensor) -> Tensor {
    model.iter().fold(rows.shallow_clone(), |rows, weight| rows.matmul(weight).tanh())
}

/// Twelve linear layers, each before a tanh: backward needs the output of the tanh, but not the product before it.
fn small_stages() -> (VarStore, checkpoint::SequentialT) {
    let variables = VarStore::new(ground::device());
    let layer = |at: i64| nn::linear(variables.root() / at, 64, 64, nn::LinearConfig::default());
    let net = (0..12).fold(checkpoint::seq_t(), |net, at| net.add(layer(at)).add_fn(Tensor::tanh));
    give_gradients(&variables);
    (variables, net)
}

#[test]
fn many_small_stages_take_no_more_than_plain_in_their_first_run_and_as_planned() {
    let _alone = alone();
    let (variables, net) = small_stages();
    let x = Tensor::ones([1024, 64], ground::floats());
    let step = |with: With<'_>| {
        peak_of(|| with.region(|| net.forward_t(&x, true)).square().mean(Kind::Float).backward())
    };
    let plain = [(); 2].map(|()| step(checkpoint::with().enabled(false)))[1];
    let form = checkpoint::with().name("small stages");
    let first = step(form);
    assert!(first * 3 <= plain * 2, "{first} of {plain} bytes");
    let costs = form.known().unwrap();
    assert_eq!(costs.stages().len(), 12);
    let most = costs.keep_all_bytes();
    assert!((plain..=plain * 21 / 20).contains(&most), "{most}, {plain} bytes of a plain step");
    never_above_the_plan(
        "small stages, planned",
        || net.forward_t(&x, true),
        |y| y.square().mean(Kind::Float).backward(),
    );
    drop(variables);
}

/// Returns the measured and the planned bytes of a step that keeps everything.
fn keeping_all(name: &str, net: impl Fn() -> Tensor) -> [u64; 2] {
    let form = checkpoint::with().name(name);
    let step = |form: With<'_>| peak_of(|| form.region(&net).sum(Kind::Float).backward());
    for form in [form.enabled(false), form.enabled(false), form] {
        step(form);
    }
    let costs = form.known().unwrap();
    let plan = costs.plan(costs.keep_all_bytes(), Solver::KeepAll).unwrap();
    [step(form.plan(&plan)), plan.peak_bytes()]
}

fn keeps_all_as_planned(name: &str, net: impl Fn() -> Tensor) {
    let [measured, planned] = keeping_all(name, net);
    let most = measured * 103 / 100 + *BLOCKS_BYTES;
    assert!((measured..=most).contains(&planned), "{name}: {measured} of {planned} bytes");
}

/// Backward needs the results of `tanh`, and neither the outputs of the layers nor the sums in them.
#[test]
fn outputs_that_backward_does_not_need_are_planned_until_the_next_stage_has_run() {
    let _alone = alone();
    let w = weight();
    keeps_all_as_planned("idle", || {
        (0..8).fold(&w * 1.0, |x, _| {
            checkpoint::cut();
            (x + 1.0).tanh() * 3.0
        })
    });
}

/// The output of each layer stays alive until the last layer has run.
fn nested(x: &Tensor, layers: usize) -> Tensor {
    checkpoint::cut();
    let y = x.tanh();
    if layers == 1 { y } else { nested(&y, layers - 1) }
}

#[test]
fn outputs_that_the_program_holds_as_well_are_planned_once() {
    let _alone = alone();
    let w = weight();
    keeps_all_as_planned("nested", || nested(&w, 8));
}

/// The program frees the outputs of the layers before the last operators, which take more bytes than those. A plan that
/// saves the layers does not free them.
#[test]
fn outputs_that_the_program_frees_before_the_last_operators_are_planned() {
    let _alone = alone();
    let w = weight();
    keeps_all_as_planned("freed", || {
        let last = nested(&w, 8);
        let wide = Tensor::cat(&[&last.detach(); 16], 0);
        &last * &wide.square().max()
    });
}

#[test]
fn rows_that_live_on_as_views_and_a_weight_of_all_stages_are_planned() {
    let _alone = alone();
    let (w, x) = (weight(), Tensor::ones([32, 64], ground::floats()));
    let net = || {
        let rows = (0..6).scan(x.shallow_clone(), |h, at| {
            checkpoint::cut();
            *h = h.matmul(&w).tanh().sigmoid();
            Some(h.narrow(0, at, 1))
        });
        rows.collect::<Vec<_>>()
    };
    let loss = |rows: &[Tensor]| Tensor::cat(rows, 0).square().mean(Kind::Float);
    never_above_the_plan("rows", net, |rows| {
        let loss = loss(&rows);
        drop(rows);
        loss.backward();
    });
    never_above_the_plan("rows that stay", net, |rows| loss(&rows).backward());
}

#[test]
fn backwards_inside_leave_what_the_plan_holds() {
    let _alone = alone();
    let (w, x) = (weight(), with_gradient(&Tensor::ones([32, 64], ground::floats())));
    for (name, is_deep) in [("inside", false), ("inside and deep", true)] {
        let net = || {
            let h = stages(5, &x, |h| h.matmul(&w).tanh().sigmoid());
            checkpoint::cut();
            let energy = h.matmul(&w).exp().sum(Kind::Float);
            let of = if is_deep { &x } else { &h };
            let slope = Tensor::run_backward(&[&energy], &[of], true, true);
            checkpoint::cut();
            (&slope[0] * &h).tanh().matmul(&w).sigmoid()
        };
        never_above_the_plan(name, net, |output| output.square().mean(Kind::Float).backward());
    }
}

#[test]
fn indices_that_pass_stages_saved_without_their_input_are_planned() {
    let _alone = alone();
    let float = ground::floats();
    let (x, w) = (Tensor::ones([4, 4, 32, 32], float), with_gradient(&Tensor::ones([4, 4, 3, 3], float)));
    let convolved = |x: &Tensor| x.conv2d(&w, None::<Tensor>, [1, 1], [1, 1], [1, 1], 1);
    let net = || {
        let (mut x, mut all) = (x.shallow_clone(), Vec::new());
        for _ in 0..3 {
            checkpoint::cut();
            let (pooled, at) = convolved(&x).max_pool2d_with_indices([2, 2], [2, 2], [0, 0], [1, 1], false);
            all.push((at, x.size()));
            x = pooled;
        }
        while let Some((at, size)) = all.pop() {
            checkpoint::cut();
            x = convolved(&x.max_unpool2d(&at, &size[2..])).tanh();
        }
        x
    };
    never_above_the_plan("indices", net, |output| output.square().mean(Kind::Float).backward());
}

#[test]
fn keeping_all_takes_no_more_than_the_plain_run() {
    let _alone = alone();
    let net = nets::residual();
    net.train(|forward| forward());
    let plain = peak_of(|| net.train(|forward| forward()));
    let form = checkpoint::with().name("keeps all").solver(Solver::KeepAll);
    net.train(|forward| form.region(forward));
    let kept = peak_of(|| net.train(|forward| form.region(forward)));
    assert_eq!(checkpoint::last().unwrap().repeats().iter().sum::<u32>(), 0);
    assert!(kept <= plain, "{kept} of {plain}");
}

#[test]
fn a_budget_below_the_least_is_out_of_memory_before_any_operator() {
    let _alone = alone();
    let net = nets::residual();
    let form = checkpoint::with().name("too small");
    net.train(|forward| form.region(forward));
    let least = form.known().unwrap().least_bytes();
    let form = form.budget(least - 1);
    let before = ground::stats().allocations;
    let error =
        form.f_region(|| tch::Tensor::f_zeros([1 << 20], (tch::Kind::Float, ground::device()))).map(drop);
    assert!(error.is_ok(), "another structure is measured anew");
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| form.region(&*net.forward)));
    let text = failed.unwrap_err().downcast::<String>().unwrap();
    let requested = format!("cpu out of memory: checkpoint too small: a budget of {} bytes is", least - 1);
    assert!(text.contains(&requested), "{text}");
    assert!(text.contains(&format!("needs {least} bytes")), "{text}");
    assert!(ground::stats().allocations <= before + 1);
}

#[test]
fn too_few_bytes_are_reported_as_requested_or_as_free_and_mean_out_of_memory() {
    let _alone = alone();
    let (x, variables) = (Tensor::ones([64, 64], ground::floats()), VarStore::new(ground::device()));
    let w = variables.root().ones("w", &[64, 64]);
    w.sum(Kind::Float).backward();
    let form = checkpoint::with().name("few");
    let net = || stages(4, &x, |x| x.matmul(&w).tanh());
    let least = form.measure(net).unwrap().least_bytes();
    let refused = |form: With<'_>| {
        let error = form.f_region(|| x.f_matmul(&w)).map(drop).unwrap_err();
        assert_eq!(error.classify().class, Class::OutOfMemory, "{error}");
        error.to_string()
    };
    // The variable had a gradient when the region was measured.
    nn::Sgd::default().build(&variables, 1.0).unwrap().zero_grad();
    let requested = least + 16383;
    let lacks = format!("needs {least} bytes, plus 16384 bytes for gradients that variables do not have yet");
    let text = refused(form.budget(requested));
    assert!(
        text.contains(&format!(
            "checkpoint few: a budget of {requested} bytes is too small for auto: stage "
        )),
        "{text}"
    );
    assert!(text.contains(&lacks), "{text}");
    let _budget = Budget::beyond_allocated(20_000);
    let text = refused(form);
    assert!(
        text.contains("checkpoint few: 19456 of 20000 free bytes are too small for auto: stage "),
        "{text}"
    );
    assert!(text.contains(&lacks), "{text}");
}

#[test]
fn the_least_budget_after_measuring_has_room_for_gradients_that_are_missing() {
    let _alone = alone();
    let weights = model();
    let rows = Tensor::randn([8, 64], ground::floats());
    let net = || through(&weights, &rows);
    let form = checkpoint::with().name("least budget");
    let costs = form.measure(net).unwrap();
    let (bytes, gradients) = (form.least_budget().unwrap(), 4 * 64 * 64 * 4);
    assert_eq!(bytes, costs.least_bytes());
    let step = |budget: u64| {
        let _budget = Budget::beyond_allocated(bytes);
        form.budget(budget).region(net).sum(Kind::Float).backward();
    };
    assert!(catch_unwind(AssertUnwindSafe(|| step(bytes - 1))).is_err());
    step(bytes);
    let later = form.known().unwrap().least_bytes();
    assert_eq!(form.least_budget(), Some(later));
    assert!((later + 1..later + gradients).contains(&bytes), "{bytes}, and {later} with gradients");
}

/// Gradients come one after the other, while the activations go: in the variables, or returned by backward.
#[test]
fn gradients_that_variables_do_not_have_yet_are_planned_stage_by_stage() {
    let _alone = alone();
    let nets = [nets::residual, nets::unmarked, nets::recurrent];
    for (net, are_returned) in nets.into_iter().flat_map(|net| [(net(), false), (net(), true)]) {
        let optimizer = RefCell::new(nn::Sgd::default().build(&net.variables, 1.0).unwrap());
        let lose_gradients = || optimizer.borrow_mut().zero_grad();
        let name = format!("gradients {} {are_returned}", net.name);
        let form = checkpoint::with().name(&name);
        let run = |form: With<'_>| {
            lose_gradients();
            peak_of(|| {
                let loss = form.region(&*net.forward).square().mean(Kind::Float);
                if are_returned {
                    accumulate_gradients(&loss, &net.variables.trainable_variables()).unwrap();
                } else {
                    loss.backward();
                }
            })
        };
        // A card's libraries take workspaces for each thread that repeats a stage.
        run(checkpoint::with());
        run(form);
        let kept = form.known().unwrap();
        lose_gradients();
        let costs = form.known().unwrap();
        let (least, most) = (costs.least_bytes(), costs.keep_all_bytes());
        assert!(kept.least_bytes() <= least, "{}", net.name);
        for budget in [least, u64::midpoint(least, most), most] {
            let plan = costs.plan(budget, Solver::Auto).unwrap();
            let (measured, planned) = (run(form.plan(&plan)), plan.peak_bytes());
            let most = measured * 103 / 100 + *BLOCKS_BYTES;
            assert!((measured..=most).contains(&planned), "{}: {measured} of {planned}: {plan}", net.name);
        }
    }
}

/// The engine sums it up once the operator's backward has returned, and only then lets go of what the operator has
/// saved.
#[test]
fn the_gradient_of_a_bias_is_planned() {
    let _alone = alone();
    let x = Tensor::ones([600, 64], ground::floats());
    let [first, second, third, bias] = [vec![64, 64], vec![64, 1024], vec![64, 1024], vec![64]]
        .map(|size| with_gradient(&Tensor::ones(&size, ground::floats())));
    let net = || {
        let hidden = x.matmul(&first).tanh();
        checkpoint::cut();
        hidden.matmul(&second).gelu("none").linear(&third, Some(&bias))
    };
    never_above_the_plan("bias", net, |output| output.square().mean(Kind::Float).backward());
}

/// The engine adds up the gradients of a variable once the last operator's backward has let go of its tensors. Then the
/// gradient of the product, that of the embedding, and their sum are there.
#[test]
fn the_sum_of_gradients_of_a_tied_embedding_is_planned() {
    let _alone = alone();
    let table = with_gradient(&Tensor::ones([4096, 16], ground::floats()));
    let words = Tensor::zeros([16], (Kind::Int64, ground::device()));
    let net = || {
        let hidden = Tensor::embedding(&table, &words, -1, false, false).tanh();
        checkpoint::cut();
        hidden.matmul(&table.transpose(0, 1))
    };
    never_above_the_plan("tied", net, |output| output.sum(Kind::Float).backward());
}

#[test]
fn the_backward_of_another_region_is_no_part_of_a_plan() {
    let _alone = alone();
    let net = |rows: i64| {
        let (w, x) = (weight(), Tensor::ones([rows, 64], ground::floats()));
        move || stages(4, &x, |x| x.matmul(&w).tanh())
    };
    let (large, small) = (net(4096), net(16));
    let least = |name: &str, is_alone: bool| {
        let form = checkpoint::with().name(name);
        let other = (!is_alone).then(|| checkpoint::with().name("large").region(&large).sum(Kind::Float));
        let loss = form.region(&small).sum(Kind::Float);
        // The backward of the region that ran last comes first.
        other.map_or_else(|| loss.shallow_clone(), |other| other + &loss).backward();
        form.known().unwrap().least_bytes()
    };
    let [one, of_two] = [least("small", true), least("small of two", false)];
    assert!(of_two <= one + 4096, "{of_two} of {one} bytes");
}

/// Each fold of a cross-validation has a model of its own, at the same line.
#[test]
fn gradients_that_another_model_lacks_are_planned() {
    let _alone = alone();
    let rows = Tensor::randn([8, 64], ground::floats());
    let form = checkpoint::with().name("folds");
    let step = |model: &[Tensor], form: With<'_>| {
        form.region(|| through(model, &rows)).sum(Kind::Float).backward();
    };
    step(&model(), form);
    let bytes = form.least_budget().unwrap();
    for _ in 0..2 {
        let model = model();
        let _budget = Budget::beyond_allocated(bytes);
        step(&model, form.budget(bytes));
    }
}

/// The gradients of a model that lives on are no measure for those of the one that has run since.
#[test]
fn the_least_budget_is_that_of_the_model_that_has_run_last() {
    let _alone = alone();
    let rows = Tensor::randn([8, 64], ground::floats());
    let form = checkpoint::with().name("two models");
    let run = |model: &[Tensor]| form.region(|| through(model, &rows)).sum(Kind::Float);
    let models = [model(), model()];
    run(&models[0]).backward();
    let with_gradients = form.least_budget().unwrap();
    let loss = run(&models[1]);
    assert!(form.least_budget().unwrap() > with_gradients);
    loss.backward();
    assert_eq!(form.least_budget(), Some(with_gradients));
}

#[test]
fn a_model_that_was_measured_is_freed_with_its_gradients() {
    let _alone = alone();
    let before = ground::allocated_bytes();
    let weight = Tensor::ones([1 << 18], ground::floats()).set_requires_grad(true);
    weight.sum(Kind::Float).backward();
    checkpoint::with().name("freed").measure(|| weight.tanh()).unwrap();
    drop(weight);
    assert_eq!(ground::allocated_bytes(), before);
}
