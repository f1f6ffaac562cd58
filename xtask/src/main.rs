//! Set-up and checks of toma: `cargo xtask --help` lists the commands.

mod args;
mod bench;
mod bundle;
mod corpus;
mod demo;
mod examples;
mod handover;
mod layout;
mod metadata;
mod peers;
mod project;
mod provision;
mod run;
#[cfg(test)]
mod scratch;
mod steps;
mod stress;
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
  demo [EXAMPLE...] [-- ARGS]  see it work: the examples named, or those made for it, with arguments that show something
  run EXAMPLE [-- ARGS]        run any example, optimized, with the libtorch and the files it needs;
                               paths in ARGS mean what they mean where you are
  test [STEP...]               run every check, or only the steps named, and print a table
      --list                   print the name of each step and what it checks
      --fail-fast              stop at the first failure instead of going on
  bench [NAME] [-- ARGS]       run every benchmark, or the one named
  bench --instructions [CASE]  count instructions per call under valgrind: repeatable on a busy machine
      --calls N                calls to count over; 1000 when not given
  bench-peers                  run the same loops through toma and through libraries for Python, and write the figures
                               into README.md, benches/RESULTS.md and benches/peers.svg
      --rounds N               how often each is measured; 4 when not given
  stress                       the stress tests with a million attempts each instead of 20,000: some minutes
      --attempts N             as many attempts instead
      --seed N                 the choices of the run that printed this seed
  gpu-bundle DIR               checks and benchmarks in one folder with a script `run`, for a machine with a GPU
  torch                        install libtorch into the target folder, and print the variables to use it
  torch -- CARGO ARGS...       run any cargo command with libtorch: cargo xtask torch -- test -p toma-torch

Options:
      --cpu, --cuda            which libtorch to install, where one is needed: the CPU's (540 MB to download) or the one
                               for GPUs (2.7 GB); without either, the GPU's where there is an NVIDIA driver
  -h, --help                   print this

libtorch is yours where LIBTORCH or LIBTORCH_USE_PYTORCH is set; it must be 2.11.0, unless you set
LIBTORCH_BYPASS_VERSION_CHECK. Installing one takes Linux, a C++ compiler, and Python 3.10 to 3.14 with venv and pip.
With CI=true in the environment the output is plain. TOMA_* variables reach `run` and `demo` alone.
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
        Some("bench-peers") => peers::command(args),
        Some("stress") => stress::command(args),
        Some("gpu-bundle") => bundle::command(args),
        Some("torch") => torch::command(args),
        Some(other) => bail!("unknown command `{other}`; `cargo xtask --help` lists the commands"),
        None => {
            eprint!("{HELP}");
            Ok(ExitCode::FAILURE)
        }
    }
}
