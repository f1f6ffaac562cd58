//! `cargo xtask demo`: the examples, as a newcomer runs them.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{Args, Names};
use crate::corpus;
use crate::examples::Example;
use crate::project::Project;
use crate::provision::{Provision, build_of};

/// What stands, in the arguments of an example, for a file of many lines of real text.
const LINES: &str = "{lines}";

pub(crate) fn command(mut args: Args) -> Result<ExitCode> {
    let build = build_of(&mut args)?;
    let Names { names, rest } = args.names()?;
    let project = Project::find()?;
    let chosen = choose(&project, &names)?;
    let provision = Provision::new(&project, build);
    for (at, example) in chosen.iter().enumerate() {
        project.heading(&title(at + 1, chosen.len(), example));
        let args = if rest.is_empty() { arguments(&project, example)? } else { rest.clone() };
        provision.run(example)?.arg("--").args(args).run()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The examples named; when none is, all that say how they are shown.
fn choose<'a>(project: &'a Project, names: &[String]) -> Result<Vec<Example<'a>>> {
    if names.is_empty() {
        let all = Example::all(&project.workspace)?;
        return Ok(all.into_iter().filter(|example| example.settings.demo.is_some()).collect());
    }
    names.iter().map(|name| Example::find(&project.workspace, name)).collect()
}

fn title(number: usize, count: usize, example: &Example<'_>) -> String {
    let (name, about) = (&example.target.name, &example.settings.about);
    let about = about.as_ref().map(|about| format!(": {about}")).unwrap_or_default();
    format!("example {number} of {count}, {name}{about}")
}

fn arguments(project: &Project, example: &Example<'_>) -> Result<Vec<String>> {
    let given = example.settings.demo.clone().unwrap_or_default();
    if !given.iter().any(|argument| argument.contains(LINES)) {
        return Ok(given);
    }
    let path = corpus::write(project)?;
    Ok(given.iter().map(|argument| argument.replace(LINES, &path.to_string_lossy())).collect())
}
