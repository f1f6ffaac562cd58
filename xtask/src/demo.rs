//! `cargo xtask demo` and `cargo xtask run`: the examples, as a newcomer runs them.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::examples::Example;
use crate::handover;
use crate::project::Project;
use crate::setup::Provision;
use crate::setup::torch::Build;

#[derive(Args, Debug)]
pub(crate) struct Demo {
    examples: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    example: String,
    #[arg(last = true)]
    args: Vec<String>,
}

impl Demo {
    pub(crate) fn run(&self, build: Option<Build>) -> Result<ExitCode> {
        let project = Project::find()?;
        // Paths in the arguments start there.
        project.caller.change_dir(&project.workspace.root);
        let chosen = choose(&project, &self.examples)?;
        let provision = Provision::new(&project, build);
        let needs_libtorch = chosen.iter().any(|example| example.needs_libtorch);
        // Downloads while the first example, which needs no libtorch, is compiled and runs.
        let _installing = needs_libtorch.then(|| provision.begin()).transpose()?;
        let code = handover::run(chosen.iter().enumerate().map(|(at, example)| {
            project.heading(&title(at + 1, chosen.len(), example));
            provision.run(example, example.settings.demo.as_deref().unwrap_or_default())
        }))?;
        if self.examples.is_empty() && code == ExitCode::SUCCESS {
            print_others(&project)?;
        }
        Ok(code)
    }
}

impl Run {
    pub(crate) fn run(&self, build: Option<Build>) -> Result<ExitCode> {
        let project = Project::find()?;
        let example = Example::find(&project.workspace, &self.example)?;
        handover::run([Provision::new(&project, build).run(&example, &self.args)])
    }
}

/// The named examples; without names, all that have arguments for the demonstration.
fn choose<'a>(project: &'a Project, names: &[String]) -> Result<Vec<Example<'a>>> {
    if names.is_empty() {
        let all = Example::all(&project.workspace)?;
        return Ok(all.into_iter().filter(|example| example.settings.demo.is_some()).collect());
    }
    names.iter().map(|name| Example::find(&project.workspace, name)).collect()
}

/// The commands of the examples that the demonstration leaves out.
fn print_others(project: &Project) -> Result<()> {
    project.heading("more examples; each prints its options with --help");
    for example in Example::all(&project.workspace)? {
        let (name, settings) = (&example.target.name, &example.settings);
        if settings.demo.is_none() {
            println!("cargo xtask run {name:<12} {}", settings.about.as_deref().unwrap_or_default());
        }
    }
    Ok(())
}

fn title(number: usize, count: usize, example: &Example<'_>) -> String {
    let (name, about) = (&example.target.name, &example.settings.about);
    let about = about.as_ref().map(|about| format!(": {about}")).unwrap_or_default();
    format!("example {number} of {count}, {name}{about}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demonstration_begins_without_libtorch() {
        let project = Project::find().unwrap();
        let shown = choose(&project, &[]).unwrap();
        let names: Vec<_> = shown.iter().map(|example| &*example.target.name).collect();
        assert_eq!(names, ["quickstart", "embed", "tour"]);
        let text = &shown[1].settings.demo.as_ref().unwrap()[1];
        assert!(project.workspace.root.join(text).is_file(), "{text}");
    }
}
