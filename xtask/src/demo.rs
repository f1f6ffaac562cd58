//! `cargo xtask demo`: an example, as a newcomer runs it.

use std::process::ExitCode;

use anyhow::Result;
use xshell::Cmd;

use crate::args::{Args, Names};
use crate::metadata::{Package, Target};
use crate::project::Project;

/// What runs when no example is named.
const DEMOS: &[&str] = &["quickstart"];

pub(crate) fn command(args: Args) -> Result<ExitCode> {
    let Names { names, rest } = args.names()?;
    let project = Project::find()?;
    let chosen = if names.is_empty() { DEMOS.iter().map(|&name| name.to_owned()).collect() } else { names };
    let find = |name: &String| project.workspace.target("example", name);
    for (package, example) in chosen.iter().map(find).collect::<Result<Vec<_>>>()? {
        run_example(&project, package, example).arg("--").args(&rest).run()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The command that runs an example with the features it asks for.
pub(crate) fn run_example<'a>(project: &'a Project, package: &Package, example: &Target) -> Cmd<'a> {
    let cargo = project.cargo("run").args(["--release", "-p", &package.name]);
    cargo.args(["--example", &example.name]).args(example.feature_args())
}
