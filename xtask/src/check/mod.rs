//! `cargo xtask test` and `cargo xtask nightly`: checks, each a step with a name.

mod fixtures;
pub(crate) mod layout;
mod lints;
mod msrv;
mod nightly;
mod programs;
mod spent;
mod steps;
mod suites;
mod summary;
mod torch;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use xshell::Cmd;

use crate::args::Args;
use crate::project::Project;
use crate::setup::{Lock, Provision, build_of};
use crate::table::{Align, table};
use nightly::Length;
use spent::Spent;
use steps::{STEPS, Step, When};
use summary::{Ended, summary};

/// What a step works with.
#[derive(Debug)]
pub(crate) struct Checks<'a> {
    project: &'a Project,
    /// What some steps need besides Rust.
    provision: Provision<'a>,
    options: Options,
    /// The temporary folder of whatever is run.
    temporary: PathBuf,
}

/// What the command line says.
#[derive(Debug, Default)]
struct Options {
    /// Stop at the first failure.
    fail_fast: bool,
    /// Without slow tests.
    fast: bool,
    length: Length,
}

/// `cargo xtask test`.
pub(crate) fn test(mut args: Args) -> Result<ExitCode> {
    let fast = args.flag("--fast");
    command(args, Options { fast, ..Options::default() }, |project| {
        let torch = fast && torch::is_changed(project)?;
        let is_run = |when| match when {
            When::Fast => true,
            When::TorchChanged => !fast || torch,
            When::Full => !fast,
            When::Nightly => false,
        };
        Ok(STEPS.iter().filter(|step| is_run(step.when)).collect())
    })
}

/// `cargo xtask nightly`.
pub(crate) fn nightly(mut args: Args) -> Result<ExitCode> {
    let length = Length::parse(&mut args)?;
    command(args, Options { length, ..Options::default() }, |_| {
        Ok(STEPS.iter().filter(|step| step.when == When::Nightly).collect())
    })
}

fn command(
    mut args: Args,
    mut options: Options,
    steps: impl FnOnce(&Project) -> Result<Vec<&'static Step>>,
) -> Result<ExitCode> {
    let list = args.flag("--list");
    options.fail_fast = args.flag("--fail-fast");
    let build = build_of(&mut args)?;
    let project = Project::find()?;
    let steps = choose(&steps(&project)?, &args.names()?.without_rest()?)?;
    if list {
        print!("{}", listing(&steps));
        return Ok(ExitCode::SUCCESS);
    }
    let folder = project.workspace.target_dir.join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let _lock = Lock::take(&folder.join("lock"))?;
    let provision = Provision::new(&project, build);
    let checks = Checks { project: &project, provision, options, temporary: folder.join("tmp") };
    let ended = checks.run(&steps)?;
    print!("{}", summary(&ended, steps.len()));
    let all_passed = ended.iter().all(|step| step.result.is_ok());
    Ok(if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The steps named, in the order in which they always run; all when none is named.
fn choose<'a>(steps: &[&'a Step], names: &[String]) -> Result<Vec<&'a Step>> {
    if let Some(unknown) = names.iter().find(|name| !steps.iter().any(|step| step.name == **name)) {
        let known: Vec<_> = steps.iter().map(|step| step.name).collect();
        bail!("unknown step `{unknown}`; known: {}", known.join(", "));
    }
    let is_chosen = |step: &&&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(steps.iter().filter(is_chosen).copied().collect())
}

fn listing(steps: &[&Step]) -> String {
    let rows: Vec<_> = steps.iter().map(|step| [step.name.to_owned(), step.checks.to_owned()]).collect();
    table([Align::Left; 2], &rows)
}

impl Checks<'_> {
    fn run(&self, steps: &[&Step]) -> Result<Vec<Ended>> {
        self.clear_temporary()?;
        self.project.shell.set_var("TMPDIR", &self.temporary);
        let mut ended = Vec::new();
        for step in steps {
            ended.push(self.run_step(step));
            if self.options.fail_fast && ended.last().is_some_and(|step| step.result.is_err()) {
                break;
            }
        }
        Ok(ended)
    }

    fn run_step(&self, step: &Step) -> Ended {
        self.project.heading(&format!("{}: {}", step.name, step.checks));
        let before = Spent::now();
        let result = (step.run)(self).and_then(|note| self.nothing_is_left().map(|()| note));
        let ended = Ended { name: step.name, result, spent: Spent::now() - before };
        eprintln!("== {ended}");
        ended
    }

    /// Fails with the names of what a step has left in the temporary folder, and removes it.
    fn nothing_is_left(&self) -> Result<()> {
        let left: Vec<_> = fs::read_dir(&self.temporary)?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        self.clear_temporary()?;
        ensure!(left.is_empty(), "left in the temporary folder: {}", left.join(", "));
        Ok(())
    }

    fn clear_temporary(&self) -> Result<()> {
        self.project.shell.remove_path(&self.temporary)?;
        Ok(self.project.shell.create_dir(&self.temporary).map(drop)?)
    }

    /// Runs every command, so that one failure hides no other, and says how many there were.
    fn run_all<'c>(&self, commands: impl IntoIterator<Item = Cmd<'c>>) -> Result<usize> {
        let (mut count, mut failures) = (0, Vec::new());
        for command in commands {
            count += 1;
            failures.extend(command.run().err().map(|error| error.to_string()));
            if self.options.fail_fast && !failures.is_empty() {
                break;
            }
        }
        all_clear(&failures).map(|()| count)
    }
}

/// Fails with the problems, one per line, when there are any.
fn all_clear(problems: &[String]) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { bail!(problems.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_once_and_in_their_own_order() {
        let steps: Vec<_> = STEPS.iter().filter(|step| step.when == When::Fast).collect();
        let chosen = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            Ok::<_, anyhow::Error>(choose(&steps, &names)?.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[]).unwrap(), ["fmt", "layout", "clippy", "test"]);
        assert_eq!(chosen(&["test", "fmt", "test"]).unwrap(), ["fmt", "test"]);
        let error = chosen(&["fmt", "tset"]).unwrap_err();
        assert_eq!(error.to_string(), "unknown step `tset`; known: fmt, layout, clippy, test");
    }
}
