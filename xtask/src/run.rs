//! `cargo xtask run`: any example, with whatever it needs.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::args::{Args, Names};
use crate::examples::Example;
use crate::handover;
use crate::project::Project;
use crate::provision::{Provision, build_of};

pub(crate) fn command(mut args: Args) -> Result<ExitCode> {
    let build = build_of(&mut args)?;
    let Names { names, rest } = args.names()?;
    let [name] = names.as_slice() else {
        bail!("one example is run at a time, {} are named; what it gets stands after `--`", names.len());
    };
    let project = Project::find()?;
    let example = Example::find(&project.workspace, name)?;
    let command = Provision::new(&project, build).run(&example, &rest)?;
    handover::run([Ok(command)])
}
