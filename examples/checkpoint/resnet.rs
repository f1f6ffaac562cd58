//! ResNet-152 of tch: one step by memonger's plan and one by each plan of toma.

use std::io::Write;
use std::time::{Duration, Instant};

use tch::nn::{self, ModuleT};
use tch::vision::resnet::resnet152;
use tch::{Device, Kind, Tensor};
use toma::torch::checkpoint::{self, Costs, Plan, Solver, With};
use toma::torch::cpu;

use crate::show::{Row, write_curve, write_rows};
use crate::{Arguments, Result};

const BATCH: usize = 4;
const CLASSES: i64 = 1000;

/// A net with images to learn.
struct Step {
    net: Box<dyn ModuleT>,
    images: Tensor,
    classes: Tensor,
}

pub(crate) fn run(arguments: &Arguments, to: &mut dyn Write) -> Result<()> {
    tch::manual_seed(7);
    let variables = nn::VarStore::new(Device::Cpu);
    let batch = arguments.batch.map_or(BATCH, std::num::NonZeroUsize::get);
    let step = Step::new(&variables, i64::try_from(batch)?, i64::from(arguments.image));
    let side = arguments.image;
    writeln!(
        to,
        "ResNet-152 of tch, whose layers are hidden; {batch} images of {side} x {side} in a step.\n"
    )?;
    // Gradients exist before and after each step, as in all steps but the first.
    step.plain();
    // The first step in a region measures the costs of its stages.
    step.learn(form().region(|| step.net.forward_t(&step.images, true)));
    let costs = form().known().ok_or("backward has not run whole")?;
    let plans = plans(arguments, &costs)?;
    let mut rows = vec![step.row("plain", None)];
    rows.extend(plans.iter().map(|(name, plan)| step.row(name, Some(plan))));
    write_rows(&rows, to)?;
    writeln!(
        to,
        "\nBytes are those beyond parameters, gradients and images. memonger's plan is √n segments.\n"
    )?;
    if let Some((name, plan)) = plans.get(1) {
        writeln!(to, "The plan \"{name}\":\n{plan}")?;
    }
    writeln!(to, "\nThe whole trade of bytes for time, which no plan does better than the bound:\n")?;
    write_curve(&costs.curve(), costs.keep_all_seconds(), to)?;
    if rows.iter().any(|row| row.loss.to_bits() != rows[0].loss.to_bits()) {
        return Err("losses of plans are not that of the plain run".into());
    }
    Ok(())
}

/// memonger's plan, and the plans of toma with its bytes, with its time, and with the least bytes.
fn plans(arguments: &Arguments, costs: &Costs) -> Result<Vec<(String, Plan)>> {
    let solver = arguments.solver;
    let memonger = costs.plan(u64::MAX, Solver::SqrtN)?;
    // The curve rises in bytes and falls in time.
    let as_fast = costs.curve().into_iter().find(|point| point.seconds <= memonger.seconds());
    let as_fast = as_fast.map_or(memonger.peak_bytes(), |point| point.bytes);
    let budgets = [
        ("in its bytes", memonger.peak_bytes()),
        ("in its time", as_fast),
        ("in the least", costs.least_bytes()),
    ];
    let reported = arguments.budget.map(|budget| ("in the budget", budget.as_u64()));
    let mut plans = vec![("memonger".to_owned(), memonger)];
    for (name, bytes) in budgets.into_iter().chain(reported) {
        plans.push((format!("{solver} {name}"), costs.plan(bytes, solver)?));
    }
    Ok(plans)
}

/// The region's options. Its name makes costs learned in one place available in another.
fn form() -> With<'static> {
    checkpoint::with().name("resnet152")
}

impl Step {
    fn new(variables: &nn::VarStore, batch: i64, side: i64) -> Self {
        let net = Box::new(resnet152(&variables.root(), CLASSES));
        let images = Tensor::randn([batch, 3, side, side], (Kind::Float, Device::Cpu));
        Self { net, images, classes: Tensor::randint(CLASSES, [batch], (Kind::Int64, Device::Cpu)) }
    }

    fn plain(&self) -> f64 {
        self.learn(self.net.forward_t(&self.images, true))
    }

    fn planned(&self, plan: &Plan) -> f64 {
        self.learn(form().plan(plan).region(|| self.net.forward_t(&self.images, true)))
    }

    fn learn(&self, logits: Tensor) -> f64 {
        let loss = logits.cross_entropy_for_logits(&self.classes);
        drop(logits);
        loss.backward();
        loss.double_value(&[])
    }

    /// Runs a step by a plan, or plainly.
    fn row(&self, name: &str, plan: Option<&Plan>) -> Row {
        let allocated_bytes = cpu::allocated_bytes();
        cpu::reset_peak_allocated_bytes();
        let begun = Instant::now();
        let loss = plan.map_or_else(|| self.plain(), |plan| self.planned(plan));
        let took = begun.elapsed();
        let predicted = plan.map(|plan| (plan.peak_bytes(), Duration::from_secs_f64(plan.seconds())));
        let peak_bytes = cpu::peak_allocated_bytes() - allocated_bytes;
        Row { name: name.to_owned(), predicted, peak_bytes, took, loss }
    }
}
