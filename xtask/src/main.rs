//! Set-up and checks of toma: `cargo xtask --help` lists the commands.

mod args;
mod bench;
mod corpus;
mod demo;
mod examples;
mod layout;
mod metadata;
mod project;
mod provision;
mod run;
#[cfg(test)]
mod scratch;
mod steps;
mod table;
mod test;
mod torch;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::args::Args;

const HELP: &str = "\
Set-up and checks of toma.

Usage: cargo xtask <COMMAND>

Commands:
  demo [EXAMPLE...] [-- ARGS]  run the examples named in release mode; quickstart when none is named
  test [STEP...]               run every check, or only the steps named, and print a table
  test torch                   run the checks of toma-torch, which need libtorch; only when named
      --list                   print the name of each step and what it checks
      --fail-fast              stop at the first failure instead of going on
  bench [NAME] [-- ARGS]       run every benchmark, or the one named
  bench --instructions [CASE]  count instructions per call under valgrind: repeatable on a busy machine
      --calls N                calls to count over; 1000 when not given
  torch                        install libtorch into the target folder, and print the variables to use it
      --cuda                   the build for GPUs, several GB, instead of the CPU's, about 600 MB
  torch -- CARGO ARGS...       run any cargo command with libtorch: cargo xtask torch -- test -p toma-torch

Options:
  -h, --help                   print this

libtorch is yours where LIBTORCH or LIBTORCH_USE_PYTORCH is set.
With CI=true in the environment the output is plain. TOMA_* variables never reach what is run.
";

fn main() -> ExitCode {
    run(Args::of_process()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") || args.flag("-h") {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    match args.command().as_deref() {
        Some("run") => run::command(args),
        Some("demo") => demo::command(args),
        Some("test") => test::command(args),
        Some("bench") => bench::command(args),
        Some("torch") => torch::command(args),
        Some(other) => bail!("unknown command `{other}`; `cargo xtask --help` lists the commands"),
        None => {
            eprint!("{HELP}");
            Ok(ExitCode::FAILURE)
        }
    }
}
