//! Bytes of a training step, predicted from dry runs of 4 and 8 items, against the bytes counted in a real step.
//!
//! ```text
//! nets                    every net, at 48 items or the most that 8 GiB hold; in bf16 on a CPU all but the slow ones
//! nets NAME               those with that in their name
//! nets --within 2GiB      at most so many bytes
//! nets --cuda             on the first CUDA device, with the segments that its allocator reserves
//! nets --test             a fast one, with few items
//! ```

use std::process::ExitCode;

use bytesize::ByteSize;
use clap::Parser;
use tch::nn::VarStore;
use tch::{Device, Kind};
use toma_core::memory::MemorySource as _;
use toma_torch::{cpu, predict};

use nets::{NETS, Net, step};

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

/// Largest errors of a prediction in per mille: too high, and too low.
const BARS: [f64; 2] = [10.0, -5.0];
/// Bars of convolutions on CUDA, whose scratch no rule predicts.
const BARS_OF_CONVOLUTIONS: [f64; 2] = [20.0, -10.0];

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
    /// A fast net with few items
    #[arg(long)]
    test: bool,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Predicted and counted bytes of one net.
struct Row {
    name: &'static str,
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
        arguments = Arguments { name: "minilm".to_owned(), items: 10, ..arguments };
    }
    cpu::count();
    println!("| net | numbers | items | predicted | counted | off | reserved: predicted | counted | off |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let is_chosen = |net: &Net| {
        net.name.contains(&arguments.name) && !LEFT_OUT.iter().any(|name| net.name.starts_with(name))
    };
    let chosen = |kind| NETS.into_iter().filter(is_chosen).map(move |net| (net, kind));
    let both = [Kind::Float, Kind::BFloat16].into_iter().flat_map(chosen);
    let is_slow = |net: &Net| {
        !arguments.cuda
            && arguments.name.is_empty()
            && SLOW_IN_BF16.iter().any(|name| net.name.starts_with(name))
    };
    let both = both.filter(|(net, kind)| *kind == Kind::Float || net.name != FLOATS_ONLY && !is_slow(net));
    let is_off: Vec<bool> = both.map(|(net, kind)| is_off(net, kind, &arguments)).collect();
    let off = is_off.iter().filter(|is_off| **is_off).count();
    println!("{off} of {} are off by more than their bars", is_off.len());
    if off == 0 && !is_off.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_off(net: Net, kind: Kind, arguments: &Arguments) -> bool {
    match measured(net, kind, arguments) {
        Ok(row) => {
            row.print();
            row.is_off()
        }
        Err(error) => {
            println!("| {} | {kind:?} | {error} |", net.name);
            true
        }
    }
}

fn measured(net: Net, kind: Kind, arguments: &Arguments) -> Result<Row, String> {
    let device = if arguments.cuda { Device::Cuda(0) } else { Device::Cpu };
    let mut variables = VarStore::new(device);
    let module = (net.build)(&variables.root());
    if kind == Kind::BFloat16 {
        variables.bfloat16();
    }
    let step = |items: usize| {
        step(&*module, &net.input(i64::try_from(items).unwrap_or(i64::MAX), kind).to_device(device), true)
    };
    let device = toma_torch::Device::new(device);
    if arguments.cuda {
        // The first step takes the workspaces of libraries, and makes gradients.
        drop(step(1));
    }
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
    let predicted_segments = prediction.reserves_bytes(items);
    let stats = || device.stats().map_err(|error| error.to_string());
    let before = stats()?;
    device.reset_peaks().map_err(|error| error.to_string())?;
    drop(step(items));
    let after = stats()?;
    let needed = [prediction.needs_bytes(items), after.peak_allocated_bytes - before.allocated_bytes];
    let reserved =
        arguments.cuda.then(|| [predicted_segments, after.peak_reserved_bytes - before.reserved_bytes]);
    let bars = if arguments.cuda && net.items() == "images" { BARS_OF_CONVOLUTIONS } else { BARS };
    Ok(Row { name: net.name, kind, items, needed, reserved, bars })
}
