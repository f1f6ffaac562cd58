//! `cargo xtask torch`: libtorch for whatever needs it.
//!
//! Nothing has to be installed by hand: where neither `LIBTORCH` nor `LIBTORCH_USE_PYTORCH` is set,
//! the libtorch that tch links against is taken from the PyTorch package, into the target folder.

mod build;
mod compiler;
mod environment;
mod given;
mod install;
mod version;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::handover;
use crate::project::Project;
pub(crate) use build::Build;
pub(crate) use compiler::name as compiler;
pub(crate) use environment::Environment;

#[derive(Args, Debug)]
pub(crate) struct Torch {
    /// The command that cargo runs with libtorch, with its arguments
    #[arg(last = true, value_name = "CARGO ARGS")]
    cargo: Vec<String>,
}

impl Torch {
    pub(crate) fn run(&self, build: Option<Build>) -> Result<ExitCode> {
        let project = Project::find()?;
        let environment = environment(&project, build)?;
        let Some((subcommand, rest)) = self.cargo.split_first() else {
            print!("{}", environment.exports());
            return Ok(ExitCode::SUCCESS);
        };
        handover::run([Ok(environment.give(project.cargo(subcommand)).args(rest))])
    }
}

/// The libtorch that the caller's environment names; otherwise ours, installed when it is missing.
pub(crate) fn environment(project: &Project, build: Option<Build>) -> Result<Environment> {
    compiler::check(project)?;
    if let Some(given) = given::environment(project)? {
        return Ok(given);
    }
    install::environment(project, build.unwrap_or_else(|| Build::of_this_machine(project)))
}
