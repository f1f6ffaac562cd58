//! Steps of training in less memory than they take: `cargo xtask run offload`.
//!
//! A net learns handwritten digits with all the memory it takes, and then in budgets below that, by each eviction. The
//! results are the same, bit for bit.

use std::error::Error;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::str::FromStr;

use bytesize::ByteSize;
use clap::{Parser, ValueEnum};
use toma::torch::offload::{Eviction, Flow, Genoa, Lru, NextEvent};

#[path = "train/data.rs"]
#[allow(dead_code, reason = "nothing is tested")]
mod data;
#[path = "quickstart/digits.rs"]
mod digits;
#[path = "offload/learning.rs"]
mod learning;
#[path = "offload/net.rs"]
mod net;
#[path = "common/program.rs"]
mod program;
#[cfg(test)]
#[path = "offload/tests.rs"]
mod tests;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Trains in less memory than it takes: unused tensors are evicted, and fetched before an operator uses them.
#[derive(Debug, Parser)]
#[command(name = "offload", max_term_width = 100)]
struct Arguments {
    /// The net that learns
    #[arg(long, value_name = "NET", default_value = "residual")]
    net: Which,
    /// Bytes in addition to the data, such as 20MiB, or a share of the peak, such as 40% [default: 60% and 40%]
    #[arg(long, value_name = "BYTES|PERCENT")]
    budget: Vec<Share>,
    /// Eviction that chooses the tensors [default: each in turn]
    #[arg(long, value_name = "POLICY")]
    policy: Vec<Policy>,
    /// Images in a step
    #[arg(long, value_name = "N", default_value = "200")]
    batch: NonZeroUsize,
    /// Steps
    #[arg(long, value_name = "N", default_value = "20")]
    steps: NonZeroUsize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Convolutions with batch norm, whose activations take most
    Residual,
    /// Wide layers, whose weights and optimizer state take most
    Perceptron,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// Evicts everything after each operator
    Genoa,
    /// Evicts the least recently used tensors when room is needed
    Lru,
    /// Evicts the tensors whose next use is the latest, or that have none, when room is needed
    NextEvent,
    /// Plans the whole step, and fetches ahead
    Flow,
}

impl Policy {
    fn eviction(self) -> Box<dyn Eviction> {
        match self {
            Self::Genoa => Box::new(Genoa),
            Self::Lru => Box::new(Lru),
            Self::NextEvent => Box::new(NextEvent),
            Self::Flow => Box::new(Flow::default()),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("no policy is hidden").get_name())
    }
}

/// A budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Bytes(ByteSize),
    Percent(u64),
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(percent) = text.strip_suffix('%') else { return text.parse().map(Self::Bytes) };
        match percent.trim().parse() {
            Ok(percent @ 1..=100) => Ok(Self::Percent(percent)),
            _ => Err(format!("{text:?}: expected 1% to 100%, or bytes such as 20MiB")),
        }
    }
}

impl Share {
    fn of(self, peak_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.as_u64(),
            Self::Percent(percent) => peak_bytes * percent / 100,
        }
    }
}

fn main() -> ExitCode {
    // A panic becomes an error, which is printed.
    std::panic::set_hook(Box::new(|_| {}));
    program::ends(|arguments: &Arguments| learning::run(arguments, &mut io::stdout().lock()))
}
