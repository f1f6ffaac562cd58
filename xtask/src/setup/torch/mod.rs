//! `cargo xtask torch`: libtorch for all commands that need it.
//!
//! The user need not install anything. If neither `LIBTORCH` nor `LIBTORCH_USE_PYTORCH` is set, the libtorch that tch
//! links against is extracted from the PyTorch package, into the target folder.

pub(crate) mod card;
mod environment;
mod install;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use xshell::Cmd;

use crate::handover;
use crate::project::Project;
pub(crate) use environment::Environment;
pub(crate) use install::Build;

#[derive(Args, Debug)]
pub(crate) struct Torch {
    /// The cargo subcommand to run with libtorch, with its arguments
    #[arg(last = true, value_name = "CARGO ARGS")]
    cargo: Vec<String>,
}

impl Torch {
    pub(crate) fn run(&self, build: Option<Build>) -> Result<ExitCode> {
        let project = Project::find()?;
        let environment = environment(&project, build)?;
        let cargo = |subcommand: &str| environment.give(project.cargo(subcommand));
        exports_or(&self.cargo, &environment.exports(), cargo)
    }
}

/// Runs a cargo command with its arguments; without a command, prints the lines for a shell.
fn exports_or<'a>(command: &[String], exports: &str, cargo: impl Fn(&str) -> Cmd<'a>) -> Result<ExitCode> {
    let Some((subcommand, rest)) = command.split_first() else {
        print!("{exports}");
        return Ok(ExitCode::SUCCESS);
    };
    handover::run([Ok(cargo(subcommand).args(rest))])
}

/// The libtorch that the caller's environment names; otherwise the one in the target folder, installed if it is
/// missing.
pub(crate) fn environment(project: &Project, build: Option<Build>) -> Result<Environment> {
    match Environment::of_caller(project)? {
        Some(given) => Ok(given),
        None => install::environment(project, build.unwrap_or_else(|| Build::of_this_machine(project))),
    }
}

/// The C++ compiler that build scripts use.
pub(crate) fn compiler() -> OsString {
    std::env::var_os("CXX").filter(|name| !name.is_empty()).unwrap_or_else(|| "c++".into())
}
