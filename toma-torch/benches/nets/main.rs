//! Bytes of a training step, predicted from dry runs of 4 and 8 items, against the bytes counted in a real step.
//!
//! ```text
//! nets                    every net, at 48 items or the most that 8 GiB hold; in bf16 on a CPU all but the slow ones
//! nets NAME               those with that in their name
//! nets --within 2GiB      at most so many bytes
//! nets --cuda             on the first CUDA device, with the segments that its allocator reserves
//! nets --step first       the first step of each net, which makes gradients and takes the workspaces of libraries
//! nets --step autocast    in half precision by autocast, on CUDA alone
//! nets --step planned     steps by checkpointing plans in three budgets, against the bytes that are planned
//! nets --test             a fast one, with few items
//! ```

use std::process::ExitCode;

use bytesize::ByteSize;
use clap::Parser;
use tch::nn::{ModuleT, VarStore};
use tch::{Device, Kind};
use toma_core::memory::MemorySource as _;
use toma_torch::checkpoint::{self, Solver};
use toma_torch::{cpu, predict};

use nets::{NETS, Net, loss};

#[path = "../../../examples/predict/nets.rs"]
#[allow(dead_code, reason = "names are not chosen one by one here")]
mod nets;
#[path = "../../../examples/predict/transformer.rs"]
mod transformer;

/// Nets whose real steps take minutes.
const LEFT_OUT: [&str; 5] = ["convmixer", "dinov2", "efficientnet-b5", "efficientnet-b6", "efficientnet-b7"];

/// Nets that are run in bf16 on a CPU only if they are named, because a step takes minutes; others have the same layers.
const SLOW_IN_BF16: [&str; 7] =
    ["densenet161", "densenet201", "efficientnet-b4", "gpt", "inception", "vgg1", "resnet152"];

/// A net that takes a mean in floats, which its last layer then refuses in other kinds.
const FLOATS_ONLY: &str = "mobilenet-v2";

const KINDS: [Kind; 2] = [Kind::Float, Kind::BFloat16];

/// Largest errors of a prediction in per mille: too high, and too low.
const BARS: [f64; 2] = [10.0, -5.0];
/// Bars of convolutions on CUDA, whose scratch no rule predicts.
const BARS_OF_CONVOLUTIONS: [f64; 2] = [20.0, -10.0];

/// Bars of a plan, which takes no more than it says.
const BARS_OF_PLANS: [f64; 2] = [30.0, 0.0];

/// Bars of the segments that CUDA's allocator reserves.
const BARS_OF_SEGMENTS: [f64; 2] = [20.0, -20.0];

#[derive(Debug, Parser)]
struct Arguments {
    /// A part of a name
    #[arg(default_value = "")]
    name: String,
    /// The most bytes that a step may take
    #[arg(long, default_value = "8GiB")]
    within: ByteSize,
    /// The most items
    #[arg(long, default_value_t = 48)]
    items: usize,
    /// The most items in bf16, in which a CPU may be ten times as slow
    #[arg(long, default_value_t = 48)]
    bf16_items: usize,
    /// On the first CUDA device
    #[arg(long)]
    cuda: bool,
    /// Which steps are compared
    #[arg(long, value_enum, default_value_t = Step::Later)]
    step: Step,
    /// A fast net with few items
    #[arg(long)]
    test: bool,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Step {
    /// A step after others of the net
    Later,
    /// The first step of the net, which makes gradients
    First,
    /// Half precision, by autocast for CUDA
    Autocast,
    /// Steps by checkpointing plans
    Planned,
}

/// Predicted and counted bytes of one step.
struct Row {
    name: String,
    kind: Kind,
    items: usize,
    /// Bytes of tensors, predicted and counted.
    needed: [u64; 2],
    /// Bytes of segments, predicted and counted; a CPU has none.
    reserved: Option<[u64; 2]>,
    bars: [f64; 2],
}

impl Row {
    fn is_off(&self) -> bool {
        let within = |bytes, [most, least]: [f64; 2]| (least..=most).contains(&per_mille(bytes));
        !(within(self.needed, self.bars) && self.reserved.is_none_or(|bytes| within(bytes, BARS_OF_SEGMENTS)))
    }

    fn print(&self) {
        let Self { name, kind, items, needed, reserved, .. } = self;
        let shown = |[predicted, counted]: [u64; 2]| {
            format!("{predicted} | {counted} | {:+.3} %", per_mille([predicted, counted]) / 10.0)
        };
        let reserved = reserved.map_or_else(|| "| |".to_owned(), shown);
        println!("| {name} | {kind:?} | {items} | {} | {reserved} |", shown(*needed));
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a step are below 2^53")]
fn per_mille([predicted, counted]: [u64; 2]) -> f64 {
    (predicted as f64 / counted as f64 - 1.0) * 1000.0
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if arguments.test {
        arguments = Arguments { name: "minilm".to_owned(), items: 10, bf16_items: 10, ..arguments };
    }
    cpu::count();
    println!("| net | numbers | items | predicted | counted | off | reserved: predicted | counted | off |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let is_chosen = |net: &Net| {
        net.name.contains(&arguments.name) && !LEFT_OUT.iter().any(|name| net.name.starts_with(name))
    };
    let chosen = |kind| NETS.into_iter().filter(is_chosen).map(move |net| (net, kind));
    let kinds = match arguments.step {
        Step::Autocast | Step::Planned => &KINDS[..1],
        Step::Later | Step::First => &KINDS[..],
    };
    let both = kinds.iter().copied().flat_map(chosen);
    let is_slow = |net: &Net| {
        !arguments.cuda
            && arguments.name.is_empty()
            && SLOW_IN_BF16.iter().any(|name| net.name.starts_with(name))
    };
    let both = both.filter(|(net, kind)| *kind == Kind::Float || net.name != FLOATS_ONLY && !is_slow(net));
    let is_off: Vec<bool> = both.flat_map(|(net, kind)| are_off(net, kind, &arguments)).collect();
    let off = is_off.iter().filter(|is_off| **is_off).count();
    println!("{off} of {} are off by more than their bars", is_off.len());
    if off == 0 && !is_off.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn are_off(net: Net, kind: Kind, arguments: &Arguments) -> Vec<bool> {
    let rows = match arguments.step {
        Step::Planned => planned(net, arguments),
        _ => predicted(net, kind, arguments),
    };
    rows.map_or_else(
        |error| {
            println!("| {} | {kind:?} | {error} |", net.name);
            vec![true]
        },
        |rows| {
            rows.iter().for_each(Row::print);
            rows.iter().map(Row::is_off).collect()
        },
    )
}

/// A net on the chosen device.
fn module(net: Net, kind: Kind, arguments: &Arguments) -> (VarStore, Box<dyn ModuleT>) {
    let mut variables = VarStore::new(if arguments.cuda { Device::Cuda(0) } else { Device::Cpu });
    let module = (net.build)(&variables.root());
    if kind == Kind::BFloat16 {
        variables.bfloat16();
    }
    (variables, module)
}

/// Returns the peaks of allocated and reserved bytes in a step, beyond the bytes before it.
fn counted(device: &toma_torch::Device, step: impl FnOnce()) -> Result<[u64; 2], String> {
    let stats = || device.stats().map_err(|error| error.to_string());
    device.release_cached_memory();
    let before = stats()?;
    device.reset_peaks().map_err(|error| error.to_string())?;
    step();
    let after = stats()?;
    Ok([
        after.peak_allocated_bytes - before.allocated_bytes,
        after.peak_reserved_bytes - before.reserved_bytes,
    ])
}

fn predicted(net: Net, kind: Kind, arguments: &Arguments) -> Result<Vec<Row>, String> {
    if arguments.step == Step::Autocast && !arguments.cuda {
        return Err("--step autocast needs --cuda".to_owned());
    }
    let (variables, module) = module(net, kind, arguments);
    let step = |items: usize| {
        let input = net.input(i64::try_from(items).unwrap_or(i64::MAX), kind).to_device(variables.device());
        let forward = || loss(&module.forward_t(&input, true));
        (if arguments.step == Step::Autocast { tch::autocast(true, forward) } else { forward() }).backward();
    };
    let device = toma_torch::Device::new(variables.device());
    if arguments.cuda && arguments.step != Step::First {
        // The first step takes the workspaces of libraries, and makes gradients.
        step(1);
    }
    let stats = || device.stats().map_err(|error| error.to_string());
    let before = stats()?;
    let prediction = predict(&device, step).map_err(|error| error.to_string())?;
    let fits = prediction.fits(arguments.within.as_u64()).ok_or("not one item fits")?;
    let most = if kind == Kind::BFloat16 { arguments.bf16_items } else { arguments.items };
    let items = fits.min(most);
    let prediction = if arguments.cuda {
        prediction.confirm(items, step).map_err(|error| error.to_string())?
    } else {
        prediction
    };
    device.release_cached_memory();
    // Workspaces, which predictions take before the first step.
    let after = stats()?;
    let taken = [
        after.allocated_bytes.saturating_sub(before.allocated_bytes),
        after.reserved_bytes.saturating_sub(before.reserved_bytes),
    ];
    let predicted = [prediction.needs_bytes(items), prediction.reserves_bytes(items)];
    let counted = counted(&device, || step(items))?;
    let [needed, reserved] = [0, 1].map(|at| [predicted[at] + taken[at], counted[at] + taken[at]]);
    let reserved = arguments.cuda.then_some(reserved);
    let bars = if arguments.cuda && net.items() == "images" { BARS_OF_CONVOLUTIONS } else { BARS };
    Ok(vec![Row { name: net.name.to_owned(), kind, items, needed, reserved, bars }])
}

/// Steps by plans: in the least bytes, in those that keep everything, and halfway.
fn planned(net: Net, arguments: &Arguments) -> Result<Vec<Row>, String> {
    let (variables, module) = module(net, Kind::Float, arguments);
    let items = arguments.items;
    let input =
        net.input(i64::try_from(items).unwrap_or(i64::MAX), Kind::Float).to_device(variables.device());
    let form = checkpoint::with().name(net.name);
    let step = |form: checkpoint::With<'_>| loss(&form.region(|| module.forward_t(&input, true))).backward();
    // The first step takes the workspaces of libraries, and makes gradients.
    step(form.enabled(false));
    step(form);
    let costs = form.known().ok_or("the region was not measured")?;
    let (least, most) = (costs.least_bytes(), costs.keep_all_bytes());
    let device = toma_torch::Device::new(variables.device());
    let budgets = [("least", least), ("halfway", u64::midpoint(least, most)), ("all", most)];
    let rows = budgets.map(|(name, budget)| {
        let plan = costs.plan(budget, Solver::Auto).map_err(|error| error.to_string())?;
        let [needed, reserved] = counted(&device, || step(form.plan(&plan)))?;
        Ok(Row {
            name: format!("{}, {name}", net.name),
            kind: Kind::Float,
            items,
            needed: [plan.peak_bytes(), needed],
            reserved: arguments.cuda.then(|| [plan.peak_bytes(), reserved]),
            bars: BARS_OF_PLANS,
        })
    });
    rows.into_iter().collect()
}
