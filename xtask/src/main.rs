//! Set-up and checks of toma: `cargo xtask --help` lists the commands.

mod args;
mod bench;
mod check;
mod demo;
mod examples;
mod handover;
mod metadata;
mod project;
#[cfg(test)]
mod scratch;
mod setup;
mod table;

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
      --fast                   what to run before each commit: format, layout, lints, and tests with all features but
                               for slow ones; with libtorch where files of toma-torch are changed and not committed
      --list                   print the name of each step and what it checks
      --fail-fast              stop at the first failure instead of going on
  bench [NAME] [-- ARGS]       run every benchmark, or the one named
  bench --instructions [CASE]  count instructions per call under valgrind: repeatable on a busy machine
      --calls N                calls to count over; 1000 when not given
  bench-peers                  run the same loops through toma and through libraries for Python, and write the figures
                               into README.md, benches/RESULTS.md and benches/peers.svg
      --rounds N               how often each is measured; 4 when not given
  nightly [STEP...]            what takes too long for `test`, with the same options
      --attempts N             as many attempts in each stress test instead of a million
      --seed N                 the choices of the stress test that printed this seed
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
        Some("demo") => demo::demo(args),
        Some("run") => demo::run(args),
        Some("test") => check::test(args),
        Some("nightly") => check::nightly(args),
        Some("bench") => bench::command(args),
        Some("bench-peers") => bench::peers::command(args),
        Some("gpu-bundle") => bench::bundle::command(args),
        Some("torch") => setup::torch::command(args),
        Some(other) => bail!("unknown command `{other}`; `cargo xtask --help` lists the commands"),
        None => {
            eprint!("{HELP}");
            Ok(ExitCode::FAILURE)
        }
    }
}
