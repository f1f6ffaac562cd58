//! Which line filled the memory: `cargo xtask run profile`.
//!
//! A language model embeds lines of text, or with `--train` a net learns handwritten digits, in a budget that is too
//! small for all of them at once. It prints the tensors that filled the memory at the first failure, the memory of each
//! line at the size that worked, and the live tensors afterwards.

use std::error::Error;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use bytesize::ByteSize;
use clap::Parser;
use toma::torch::cpu;

use crate::embedding::Embedding;
use crate::learning::Learning;
use crate::program::first_line;
use crate::show::{Work, show};

#[path = "train/data.rs"]
#[allow(dead_code, reason = "only training")]
mod data;
#[path = "quickstart/digits.rs"]
mod digits;
#[path = "profile/embedding.rs"]
mod embedding;
#[path = "profile/learning.rs"]
mod learning;
#[path = "embed/model.rs"]
#[allow(dead_code, reason = "vectors are not kept")]
mod model;
#[path = "common/program.rs"]
mod program;
#[path = "profile/show.rs"]
mod show;
#[cfg(test)]
#[path = "profile/tests.rs"]
mod tests;
#[path = "embed/texts.rs"]
#[allow(dead_code, reason = "one bucket")]
mod texts;
#[path = "embed/weights.rs"]
mod weights;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Shows which line fills the memory, in a language model that embeds text, or in a net that learns digits.
#[derive(Debug, Parser)]
#[command(name = "profile", max_term_width = 100)]
struct Arguments {
    /// A net that learns handwritten digits, instead of a language model that embeds
    #[arg(long)]
    train: bool,
    /// Lines of text or images of digits that are tried at once [default: 64 lines or 900 images]
    #[arg(long, value_name = "N")]
    batch: Option<NonZeroUsize>,
    /// Bytes for tensors in addition to the loaded ones, such as 8MiB [default: 16 MiB, to train 8 MiB]
    #[arg(long, value_name = "BYTES")]
    budget: Option<ByteSize>,
    /// Folder for the recording in four formats: text, HTML, pickle and Perfetto
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Folder with config.json, tokenizer.json and model.safetensors; set by `cargo xtask run profile`
    #[arg(long, value_name = "DIR", env = "MINILM_DIR", hide_env_values = true)]
    model: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::ends(|arguments: &Arguments| run(arguments, &mut io::stdout().lock()))
}

fn run(arguments: &Arguments, to: &mut dyn io::Write) -> Result<()> {
    // From the first tensor on, so that all of them are in the inventory.
    cpu::count();
    tch::manual_seed(7);
    let batch = |default| arguments.batch.map_or(default, NonZeroUsize::get);
    let (mut work, budget): (Box<dyn Work>, _) = if arguments.train {
        (Box::new(Learning::new(batch(900))?), ByteSize::mib(8))
    } else {
        let model = arguments.model.as_ref().ok_or(
            "model: no folder is given; `cargo xtask run profile` fetches the model and gives it, or say \
             --model DIR or set MINILM_DIR",
        )?;
        (Box::new(Embedding::new(model, batch(64))?), ByteSize::mib(16))
    };
    show(&mut *work, arguments.budget.unwrap_or(budget), arguments.output.as_deref(), to)
}
