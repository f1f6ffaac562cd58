//! `cargo xtask demo` and `cargo xtask run`: the examples, as a newcomer runs them.

mod corpus;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::examples::Example;
use crate::handover;
use crate::project::Project;
use crate::setup::Provision;
use crate::setup::torch::Build;

/// What stands, in the arguments of an example, for a file of many lines of real text.
const LINES: &str = "{lines}";

#[derive(Args, Debug)]
pub(crate) struct Demo {
    examples: Vec<String>,
    /// What each of them gets instead of its own arguments
    #[arg(last = true)]
    args: Vec<String>,
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
        let chosen = choose(&project, &self.examples)?;
        let provision = Provision::new(&project, build);
        handover::run(chosen.iter().enumerate().map(|(at, example)| {
            project.heading(&title(at + 1, chosen.len(), example));
            let args = if self.args.is_empty() { arguments(&project, example)? } else { self.args.clone() };
            provision.run(example, &args)
        }))
    }
}

impl Run {
    pub(crate) fn run(&self, build: Option<Build>) -> Result<ExitCode> {
        let project = Project::find()?;
        let example = Example::find(&project.workspace, &self.example)?;
        handover::run([Provision::new(&project, build).run(&example, &self.args)])
    }
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
    fill_in(example.settings.demo.clone().unwrap_or_default(), || corpus::write(project))
}

/// Puts the path of the lines where it is asked for; they are collected only then.
fn fill_in(mut args: Vec<String>, lines: impl FnOnce() -> Result<PathBuf>) -> Result<Vec<String>> {
    if args.iter().any(|argument| argument.contains(LINES)) {
        let path = lines()?;
        for argument in &mut args {
            *argument = argument.replace(LINES, &path.to_string_lossy());
        }
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn the_demonstration_ends_with_the_tour() {
        let project = Project::find().unwrap();
        let shown = choose(&project, &[]).unwrap();
        assert_eq!(shown.last().unwrap().target.name, "tour");
        assert!(shown.len() > 2);
    }

    #[test]
    fn lines_are_collected_only_where_an_argument_asks_for_them() {
        let args = fill_in(strings(&["--input={lines}", "-n", "{lines}"]), || Ok("/t/lines.txt".into()));
        assert_eq!(args.unwrap(), ["--input=/t/lines.txt", "-n", "/t/lines.txt"]);
        let untouched = fill_in(strings(&["--lines"]), || panic!("no argument asks"));
        assert_eq!(untouched.unwrap(), ["--lines"]);
    }
}
