//! Regions inside attempts: the same size again with a leaner plan, then a smaller one.

use std::cell::Cell;

use crate::ground::{self, Budget, FailingAllocation};
use tch::nn::{self, Module as _, OptimizerConfig as _, VarStore};
use tch::{Kind, TchError, Tensor};
use toma::{device::Rung, observe::Answer, report};
use toma_core::NoCache;
use toma_core::execute;
use toma_torch::checkpoint::{self, With};
use toma_torch::{Backward as _, DryRun, Loss};

use crate::kit::{alone, give_gradients};
use crate::rounds::rounds;

const ROWS: usize = 32;

/// A training step on these rows, within a region.
struct Step {
    name: &'static str,
    rows: Tensor,
    net: Box<dyn Fn(&Tensor) -> Tensor>,
}

impl Step {
    fn run(&self, rows: usize, form: &With<'_>) -> Result<(), TchError> {
        let rows = self.rows.f_narrow(0, 0, i64::try_from(rows).unwrap())?;
        form.region(|| (self.net)(&rows)).f_square()?.f_mean(Kind::Float)?.f_backward()
    }
}

fn steps() -> [Step; 3] {
    tch::manual_seed(3);
    let vs = VarStore::new(ground::device());
    let p = vs.root();
    let randn = |sizes: &[i64]| Tensor::randn(sizes, ground::floats());
    let perceptron = (0..6).fold(checkpoint::seq(), |net, at| {
        let wide = nn::linear(&p / "mlp" / at / "a", 16, 64, nn::LinearConfig::default());
        let narrow = nn::linear(&p / "mlp" / at / "b", 64, 16, nn::LinearConfig::default());
        net.add_fn(move |x| (x.apply(&wide).gelu("none").apply(&narrow) + x).tanh())
    });
    let convolutions = (0..5).fold(checkpoint::seq(), |net, at| {
        let config = nn::ConvConfig { padding: 1, ..Default::default() };
        let conv = nn::conv2d(&p / "conv" / at, 3, 3, 3, config);
        net.add_fn(move |x| x.apply(&conv).sigmoid() * x)
    });
    let normed = (0..5).fold(checkpoint::seq(), |net, at| {
        let norm = nn::layer_norm(&p / "norm" / at, vec![24], nn::LayerNormConfig::default());
        let mix = nn::linear(&p / "mix" / at, 24, 24, nn::LinearConfig::default());
        net.add_fn(move |x| x + x.apply(&norm).apply(&mix).silu())
    });
    give_gradients(&vs);
    [
        Step { name: "perceptron", rows: randn(&[32, 16]), net: Box::new(move |x| perceptron.forward(x)) },
        Step {
            name: "convolutions",
            rows: randn(&[32, 3, 8, 8]),
            net: Box::new(move |x| convolutions.forward(x)),
        },
        Step { name: "normed", rows: randn(&[32, 24]), net: Box::new(move |x| normed.forward(x)) },
    ]
}

fn batch(step: &Step, form: &With<'_>) -> usize {
    let size = Cell::new(0);
    let device = toma_torch::Device::new(ground::device());
    let done = execute::with::<NoCache>().device(&device).batch(ROWS, |rows| {
        size.set(rows);
        step.run(rows, form)
    });
    done.unwrap();
    size.get()
}

#[test]
fn a_batch_keeps_its_size_in_every_budget_that_some_plan_fits_once_costs_are_known() {
    let _alone = alone();
    for step in steps() {
        let form = checkpoint::with().name(step.name);
        step.run(ROWS, &form).unwrap();
        let costs = form.known().unwrap();
        let (least, most) = (costs.least_bytes(), costs.keep_all_bytes());
        for part in (1..=4).step_by(rounds(3, 1)) {
            // The budget of the plan, 2 % more, and the bytes lost by rounding to whole percents.
            let bytes = (least + (most - least) * part / 4) * 100 / 97 + 200;
            let _budget = Budget::beyond_allocated(bytes);
            assert_eq!(batch(&step, &form), ROWS, "{} in {bytes} bytes", step.name);
            let report = report::last().unwrap();
            assert_eq!(report.out_of_memory, 0, "{} in {bytes} bytes: {report}", step.name);
        }
    }
}

/// A budget of these bytes does not vary, as the free memory of the machine does.
const AMPLE: u64 = 1 << 30;

#[test]
fn a_size_that_fails_all_the_same_gets_a_leaner_plan_and_then_a_smaller_size() {
    let _alone = alone();
    for step in steps() {
        let failures = Cell::new(0);
        // A new region each time, because the costs learned from a failure depend on the times of the stages.
        let fails = |times: usize| {
            let name = format!("{} {times}", step.name);
            let form = checkpoint::with().name(&name).budget(AMPLE);
            step.run(ROWS, &form).unwrap();
            failures.set(times);
            execute::with::<NoCache>().batch(ROWS, |rows| {
                let failing = failures.get() > 0;
                failures.set(failures.get().saturating_sub(1));
                let _failing = failing.then(|| FailingAllocation::after(20));
                step.run(rows, &form)
            })
        };
        let answers = || -> Vec<Option<Answer>> {
            let report = report::last().unwrap();
            report.tried.iter().filter(|tried| tried.failed.is_some()).map(|tried| tried.answer).collect()
        };
        let before = ground::allocated_bytes();
        fails(1).unwrap();
        assert_eq!(answers(), [Some(Answer::Again(Rung::Leaner))], "{}", step.name);
        let leaner = checkpoint::last().unwrap();
        assert!(leaner.repeats().iter().sum::<u32>() > 0, "{leaner}");
        fails(2).unwrap();
        let half = Some(Answer::Shrink(ROWS / 2));
        assert_eq!(answers(), [Some(Answer::Again(Rung::Leaner)), half], "{}", step.name);
        assert_eq!(ground::allocated_bytes(), before, "{}", step.name);
    }
}

#[test]
fn an_excess_is_forgotten_after_some_plans() {
    let _alone = alone();
    let [step, ..] = steps();
    let form = checkpoint::with().name("forgotten").budget(AMPLE);
    step.run(ROWS, &form).unwrap();
    let failed = Cell::new(false);
    let done = execute::with::<NoCache>().batch(ROWS, |rows| {
        let _failing = (!failed.replace(true)).then(|| FailingAllocation::after(20));
        step.run(rows, &form)
    });
    done.unwrap();
    let repeats = || {
        step.run(ROWS, &form).unwrap();
        checkpoint::last().unwrap().repeats().iter().sum::<u32>()
    };
    assert!(repeats() > 0, "remembered");
    assert!((0..64 * 64).any(|_| repeats() == 0), "not for good");
}

#[test]
fn promised_bytes_of_a_region_are_not_free_to_others() {
    let _alone = alone();
    let [step, ..] = steps();
    let device = toma_torch::Device::new(ground::device());
    let form = checkpoint::with().name("promised");
    step.run(ROWS, &form).unwrap();
    let promised = || toma::device::promised_bytes(&device);
    let seen = Cell::new(0);
    let loss = form.region(|| {
        let output = (step.net)(&step.rows);
        seen.set(promised());
        output
    });
    assert!(seen.get() > 0);
    loss.square().mean(Kind::Float).backward();
    drop(loss);
    assert_eq!(promised(), 0);
}

#[test]
fn a_dry_run_is_of_the_plain_step() {
    let _alone = alone();
    let [step, ..] = steps();
    let form = checkpoint::with().name("dry");
    let dry = toma_torch::dry_run(|| step.run(8, &form).unwrap()).unwrap();
    let plain = toma_torch::dry_run(|| step.run(8, &form.enabled(false)).unwrap()).unwrap();
    let peak = |trace: &toma::trace::Trace| trace.live(&ground::place()).peak().bytes;
    assert_eq!(peak(&dry), peak(&plain));
    assert!(form.known().is_none());
}

/// Trains in enough memory, then in a quarter of the way from the least bytes to all, which is too little for a plain
/// step. Returns the number of attempts.
fn attempts_in_little(keeps: bool) -> usize {
    let name = format!("of a form, {keeps}");
    let form = checkpoint::with().name(&name).keep_size(keeps);
    let device = toma_torch::Device::new(ground::device());
    let vs = VarStore::new(ground::device());
    let net = (0..6).fold(checkpoint::seq(), |net, at| {
        let mix = nn::linear(vs.root() / at, 24, 24, nn::LinearConfig::default());
        net.add_fn(move |x| x + x.apply(&mix).tanh().exp().sigmoid())
    });
    let mut optimizer = nn::Sgd::default().build(&vs, 0.1).unwrap();
    let mut train = || {
        let with = execute::with::<NoCache>().device(&device).predict(&DryRun).key(keeps);
        let body = |rows: &Tensor| form.region(|| net.forward(rows)).square().mean(Kind::Float);
        drop(with.backward_step(Loss::Mean, &mut optimizer, Tensor::randn([32, 24], ground::floats()), body));
        report::last().unwrap()
    };
    assert_eq!(train().attempts, 1);
    let costs = form.known().unwrap();
    let [least, all] = [costs.least_bytes(), costs.keep_all_bytes()];
    let _budget = Budget::beyond_allocated((least + (all - least) / 4) * 100 / 97 + 200);
    let report = train();
    assert_eq!(report.out_of_memory, 0, "{report}");
    report.attempts
}

#[test]
fn a_training_form_keeps_the_size_of_a_region_that_does() {
    let _alone = alone();
    assert_eq!(attempts_in_little(true), 1);
    assert!(attempts_in_little(false) > 1);
}
