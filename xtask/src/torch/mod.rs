//! `cargo xtask torch`: libtorch for whatever needs it.
//!
//! Nothing has to be installed by hand: where neither `LIBTORCH` nor `LIBTORCH_USE_PYTORCH` is set,
//! the libtorch that tch links against is taken from the PyTorch package, into the target folder.

mod environment;
mod install;
mod packages;

use std::process::ExitCode;

use anyhow::{Result, bail};
use xshell::Cmd;

use crate::args::{Args, Names};
use crate::project::Project;
pub(crate) use environment::Environment;
use packages::Build;

pub(crate) fn command(mut args: Args) -> Result<ExitCode> {
    let build = if args.flag("--cuda") { Build::Cuda } else { Build::Cpu };
    let Names { names, rest } = args.names()?;
    if let Some(name) = names.first() {
        bail!("unexpected argument `{name}`: what cargo is to do stands after `--`");
    }
    let project = Project::find()?;
    let environment = environment(&project, build)?;
    match rest.split_first() {
        None => print!("{}", environment.exports()),
        Some((subcommand, rest)) => environment.give(project.cargo(subcommand)).args(rest).run()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What the checks of toma-torch run with.
pub(crate) fn for_checks(project: &Project) -> Result<Environment> {
    environment(project, Build::Cpu)
}

/// The libtorch that the caller's environment names; otherwise ours, installed when it is missing.
fn environment(project: &Project, build: Build) -> Result<Environment> {
    if let Some(given) = Environment::given(project)? {
        return Ok(given);
    }
    Ok(install::installed(project, build)?.environment())
}

impl Environment {
    /// `command` with the variables that make it build against, and find, this libtorch.
    pub(crate) fn give<'a>(&self, command: Cmd<'a>) -> Cmd<'a> {
        command.envs(self.variables())
    }
}
