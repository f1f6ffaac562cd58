//! `cargo xtask bench`: measurements, in time or in instructions.

pub(crate) mod bundle;
mod callgrind;

use std::num::NonZeroU64;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::handover;
use crate::project::Project;
use crate::setup::Provision;
use crate::setup::torch::Build;

#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Name of one benchmark; with `--instructions`, a part of the names of cases
    pub(crate) name: Option<String>,
    /// Count instructions per call under valgrind, which are repeatable on a busy machine
    #[arg(long)]
    instructions: bool,
    /// Number of calls to count
    #[arg(long, value_name = "N", default_value = "1000", requires = "instructions")]
    calls: NonZeroU64,
    #[arg(last = true, value_name = "ARGS", conflicts_with = "instructions")]
    pub(crate) rest: Vec<String>,
}

impl Bench {
    pub(crate) fn run(&self, build: Option<Build>) -> Result<ExitCode> {
        let (project, name) = (Project::find()?, self.name.as_deref());
        if self.instructions {
            callgrind::count(&project, name.unwrap_or_default(), self.calls.get())?;
            return Ok(ExitCode::SUCCESS);
        }
        let benches: Vec<_> = match name {
            Some(name) => vec![project.workspace.target("bench", name)?],
            None => project.workspace.targets_of("bench").collect(),
        };
        let provision = Provision::new(&project, build);
        handover::run(benches.into_iter().map(|(package, bench)| {
            let cargo = project.cargo("bench").args(["-p", &package.name, "--bench", &bench.name]);
            let cargo = cargo.args(bench.feature_args()).arg("--").args(&self.rest);
            let with_libtorch = project.workspace.needs_libtorch(package);
            Ok(if with_libtorch { provision.libtorch()?.give(cargo) } else { cargo })
        }))
    }
}
