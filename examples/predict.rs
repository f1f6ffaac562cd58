//! Memory of a net before its first run: `cargo xtask run predict -- resnet50 --train --budget 8GiB`.

use std::error::Error;
use std::process::ExitCode;

use bytesize::ByteSize;
use clap::Parser;
use tch::nn;
use tch::{Device, Kind};
use toma::torch::{Prediction, predict};

use crate::nets::{Net, step};

#[path = "predict/nets.rs"]
mod nets;
#[path = "predict/transformer.rs"]
mod transformer;

/// Predicts the memory of a net for any number of images or texts, without running it.
#[derive(Debug, Parser)]
#[command(name = "predict", max_term_width = 100)]
struct Arguments {
    /// A net of `tch::vision`, such as resnet50, or minilm or gpt, with untrained weights
    #[arg(value_parser = Net::named)]
    net: Net,
    /// A step of training instead of inference
    #[arg(long)]
    train: bool,
    /// Available memory, such as 24GiB, to find how many items fit
    #[arg(long, value_name = "BYTES")]
    budget: Option<ByteSize>,
    /// Confirm the prediction by a dry run with this number of items
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let &Arguments { net, train, budget, batch } = arguments;
    let variables = nn::VarStore::new(Device::Cpu);
    let module = (net.build)(&variables.root());
    let step = |items: usize| {
        let items = i64::try_from(items).expect("dry runs are of few items");
        step(&*module, &net.input(items, Kind::Float), train)
    };
    let device = toma::torch::Device::new(Device::Cpu);
    let mut prediction = predict(&device, step)?;
    if let Some(items) = batch {
        prediction = prediction.confirm(items, step)?;
    }
    println!("{}, {}", net.name, if train { "a step of training" } else { "inference" });
    println!("{}", prediction.explain());
    if let Some(items) = batch {
        println!("{items} {} take {}", net.items(), ByteSize(prediction.needs_bytes(items)));
    }
    if let Some(budget) = budget {
        println!("{}", fits(net, &prediction, budget)?);
    }
    Ok(())
}

fn fits(net: Net, prediction: &Prediction, budget: ByteSize) -> Result<String, String> {
    let needs = |items| ByteSize(prediction.needs_bytes(items));
    match prediction.fits(budget.as_u64()) {
        Some(items) => Ok(format!("{budget} hold {items} {}, which take {}", net.items(), needs(items))),
        None => Err(format!("budget {budget}: one of the {} takes {}", net.items(), needs(1))),
    }
}
