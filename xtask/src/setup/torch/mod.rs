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

use anyhow::{Result, bail};

use crate::args::{Args, Names};
use crate::handover;
use crate::project::Project;
use crate::setup::build_of;
pub(crate) use build::Build;
pub(crate) use compiler::name as compiler;
pub(crate) use environment::Environment;

pub(crate) fn command(mut args: Args) -> Result<ExitCode> {
    let build = build_of(&mut args)?;
    let Names { names, rest } = args.names()?;
    if let Some(name) = names.first() {
        bail!("unexpected argument `{name}`: what cargo is to do stands after `--`");
    }
    let project = Project::find()?;
    let environment = environment(&project, build)?;
    match rest.split_first() {
        None => {
            print!("{}", environment.exports());
            Ok(ExitCode::SUCCESS)
        }
        Some((subcommand, rest)) => {
            handover::run([Ok(environment.give(project.cargo(subcommand)).args(rest))])
        }
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
