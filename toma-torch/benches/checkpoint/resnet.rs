//! ResNet-152: plain, memonger's partition, and plans of toma.

use std::error::Error;

use tch::nn::{ModuleT, VarStore};
use tch::{Device, Kind, Tensor};
use toma_torch::checkpoint::{self, Costs, Plan, SequentialT, Solver, With};
use toma_torch::cpu;

use crate::clock::{self, Spread};
use crate::net::{self, Step};
use crate::plans;
use crate::{Arguments, verdict};

const CLASSES: i64 = 1000;
const MIB: f64 = 1_048_576.0;

/// Peaks and times of one plan in all rounds.
struct Taken {
    name: &'static str,
    plan: Option<Plan>,
    peak_bytes: u64,
    seconds: Vec<f64>,
}

pub(crate) fn measure(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let &Arguments { batch, image, rounds, .. } = arguments;
    let images = Tensor::randn([batch, 3, image, image], (Kind::Float, Device::Cpu));
    let classes = Tensor::randint(CLASSES, [batch], (Kind::Int64, Device::Cpu));
    println!("ResNet-152, {batch} images of {image} x {image}, {rounds} rounds");
    let variables = VarStore::new(Device::Cpu);
    let net = net::resnet152(&variables.root(), CLASSES);
    let open = Step { net, images: images.shallow_clone(), classes: classes.shallow_clone() };
    // Gradients are defined before and after each step, as in every step but the first.
    let loss = open.learn(open.forward());
    let measured = checkpoint::with().name("measured").measure(|| open.forward())?;
    let costs = first_step(&open, &form())?;
    let memonger = Plan::new(&costs, plans::memonger())?;
    let its_bytes = Taken::new("memonger", Some(memonger.clone())).round(&open, loss)?;
    let ours = plans::ours(&costs, &memonger, its_bytes)?.map(|ours| Taken::new(ours.name, Some(ours.plan)));
    let mut taken = vec![Taken::new("plain", None), Taken::new("memonger", Some(memonger))];
    taken.extend(ours);
    for _ in 0..rounds {
        for taken in &mut taken {
            taken.round(&open, loss)?;
        }
    }
    show(&taken);
    let of_step = |bytes| mib(bytes) / mib(costs.keep_all_bytes());
    print_figure(
        "bytes that `measure` finds in a step that keeps all",
        of_step(measured.keep_all_bytes()),
        1.02,
    );
    judge(&taken, (batch, image) == (16, 224));
    drop(open);
    drop(variables);
    let variables = VarStore::new(Device::Cpu);
    let net = tch::vision::resnet::resnet152(&variables.root(), CLASSES);
    closed(&Step { net, images, classes }, &taken[2], rounds)
}

/// Returns the form. Its name shares the learned costs between call sites.
fn form() -> With<'static> {
    checkpoint::with().name("resnet")
}

/// Runs the first step, and returns the learned costs.
fn first_step<M: ModuleT>(step: &Step<M>, form: &With<'_>) -> Result<Costs, &'static str> {
    step.learn(form.region(|| step.forward()));
    form.known().ok_or("backward has not run whole")
}

impl Taken {
    fn new(name: &'static str, plan: Option<Plan>) -> Self {
        Self { name, plan, peak_bytes: 0, seconds: Vec::new() }
    }

    /// Runs one step, and returns its peak.
    fn round(&mut self, step: &Step<SequentialT>, plain_loss: f64) -> Result<u64, String> {
        let mut loss = f64::NAN;
        let allocated_bytes = cpu::allocated_bytes();
        cpu::reset_peak_allocated_bytes();
        self.seconds.push(clock::seconds(|| {
            loss = step.learn(match &self.plan {
                Some(plan) => form().plan(plan).region(|| step.forward()),
                None => step.forward(),
            });
        }));
        self.peak_bytes = cpu::peak_allocated_bytes() - allocated_bytes;
        if loss.to_bits() == plain_loss.to_bits() {
            Ok(self.peak_bytes)
        } else {
            Err(format!("{}: a loss of {loss}, plain {plain_loss}", self.name))
        }
    }

    /// The time in percent beyond the plain step of the same round.
    fn overhead(&self, plain: &Self) -> Spread {
        let ratios =
            self.seconds.iter().zip(&plain.seconds).map(|(took, plain)| (took / plain - 1.0) * 100.0);
        Spread::of(ratios.collect())
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a step are below 2^53")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

fn show(taken: &[Taken]) {
    println!("| plan | MiB | planned | time | planned | spread | repeats |");
    println!("|---|---|---|---|---|---|---|");
    for row in taken {
        let (overhead, peak) = (row.overhead(&taken[0]), mib(row.peak_bytes));
        let Some(plan) = &row.plan else {
            println!(
                "| {} | {peak:.1} | | {:.2} s | | | |",
                row.name,
                Spread::of(row.seconds.clone()).median
            );
            continue;
        };
        let planned = (plan.seconds() / plan.keep_all_seconds() - 1.0) * 100.0;
        println!(
            "| {} | {peak:.1} | {:.1} | {:+.1} % | {planned:+.1} % | {:.1} to {:.1} | {} |",
            row.name,
            mib(plan.peak_bytes()),
            overhead.median,
            overhead.least,
            overhead.most,
            plan.repeats().sum::<usize>(),
        );
    }
}

fn judge(taken: &[Taken], is_full: bool) {
    let [plain, memonger, in_bytes, in_time, least] = taken else { return };
    let [overhead, of_memonger] = [in_bytes, memonger].map(|row| row.overhead(plain).median);
    let of_bytes = |row: &Taken| mib(row.peak_bytes) / mib(memonger.peak_bytes);
    print_figure("ours in its bytes, of its overhead", overhead / of_memonger, 0.8);
    print_figure("ours in its bytes, of its bytes", of_bytes(in_bytes), 1.0);
    print_figure("ours in its time, of its bytes", of_bytes(in_time), 0.72);
    if is_full {
        print_figure("least, MiB", mib(least.peak_bytes), 385.0);
    }
    for row in &taken[1..] {
        let planned = row.plan.as_ref().map_or(0, Plan::peak_bytes);
        let off = i128::from(planned) - i128::from(row.peak_bytes);
        let is_within = if (0..=i128::from(row.peak_bytes / 50)).contains(&off) { "yes" } else { "no" };
        println!("{}, planned bytes: {off:+} (bar: none to 2 % more): {is_within}", row.name);
    }
}

fn print_figure(name: &str, figure: f64, bar: f64) {
    println!("{name}: {figure:.3} (bar: {bar}): {}", verdict(figure, bar));
}

/// Runs tch's own net, whose layers are not visible as stages, with as many bytes.
fn closed<M: ModuleT>(step: &Step<M>, open: &Taken, rounds: usize) -> Result<(), Box<dyn Error>> {
    let Some(bytes) = open.plan.as_ref().map(Plan::peak_bytes) else { return Ok(()) };
    let form = checkpoint::with().name("closed");
    step.learn(step.forward());
    let costs = first_step(step, &form)?;
    let least = costs.least_bytes();
    println!("closed net: {} stages, planned to need {:.1} MiB", costs.stages().len(), mib(least));
    let plan = costs.plan(bytes.max(least), Solver::Auto)?;
    let mut taken = Vec::new();
    let allocated_bytes = cpu::allocated_bytes();
    cpu::reset_peak_allocated_bytes();
    for _ in 0..rounds {
        taken.push(clock::seconds(|| {
            step.learn(form.plan(&plan).region(|| step.forward()));
        }));
    }
    let peak = cpu::peak_allocated_bytes() - allocated_bytes;
    print_figure("closed net, of the bytes with open layers", mib(peak) / mib(open.peak_bytes), 1.05);
    let [closed, open] = [taken, open.seconds.clone()].map(|seconds| Spread::of(seconds).median);
    print_figure("closed net, of the time with open layers", closed / open, 1.05);
    Ok(())
}
