//! `cargo xtask test` and `cargo xtask nightly`: checks, each a step with a name.

mod fixtures;
mod layout;
mod lints;
mod marks;
mod msrv;
mod nightly;
mod package;
mod programs;
mod spent;
mod steps;
mod suites;
mod summary;
pub(crate) mod surface;
mod torch;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use clap::Args;
use xshell::Cmd;

use crate::project::Project;
use crate::setup::torch::Build;
use crate::setup::{Lock, Provision};
use nightly::Length;
use spent::Watch;
use steps::{STEPS, Step, When};
use summary::{Ended, summary};

#[derive(Args, Debug)]
pub(crate) struct Test {
    #[command(flatten)]
    pub(crate) how: How,
    /// What to run before each commit: format, layout, lints, and tests with all features but for slow ones; with
    /// libtorch where files of toma-torch are changed and not committed
    #[arg(long)]
    fast: bool,
    /// Let the step `surface` write what users can name instead of comparing it
    #[arg(long)]
    bless: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Nightly {
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    length: Length,
}

#[derive(Args, Debug)]
pub(crate) struct How {
    /// Only these steps, in the order in which they always run
    pub(crate) steps: Vec<String>,
    /// Print the name of each step and what it checks
    #[arg(long)]
    list: bool,
    /// Stop at the first failure instead of going on
    #[arg(long)]
    pub(crate) fail_fast: bool,
}

/// What a step works with.
#[derive(Debug)]
struct Checks<'a> {
    project: &'a Project,
    /// What some steps need besides Rust.
    provision: Provision<'a>,
    how: How,
    /// Without slow tests.
    fast: bool,
    /// Snapshots are written instead of compared.
    bless: bool,
    length: Length,
    /// The temporary folder of whatever is run.
    temporary: PathBuf,
}

impl Test {
    pub(crate) fn run(self, build: Option<Build>) -> Result<ExitCode> {
        let (project, fast) = (Project::find()?, self.fast);
        let torch = !fast || torch::is_changed(&project)?;
        let is_run = |when| match when {
            When::Fast => true,
            When::TorchChanged => torch,
            When::Full => !fast,
            When::Nightly => false,
        };
        let checks = Checks { fast, bless: self.bless, ..Checks::new(&project, build, self.how) };
        checks.run(&choose(is_run, &checks.how.steps)?)
    }
}

impl Nightly {
    pub(crate) fn run(self, build: Option<Build>) -> Result<ExitCode> {
        let project = Project::find()?;
        let checks = Checks { length: self.length, ..Checks::new(&project, build, self.how) };
        checks.run(&choose(|when| when == When::Nightly, &checks.how.steps)?)
    }
}

/// Of the steps of a command those named, in the order in which they always run; all when none is named.
fn choose(of_command: impl Fn(When) -> bool, names: &[String]) -> Result<Vec<&'static Step>> {
    let steps: Vec<_> = STEPS.iter().filter(|step| of_command(step.when)).collect();
    if let Some(unknown) = names.iter().find(|name| !steps.iter().any(|step| step.name == **name)) {
        let known: Vec<_> = steps.iter().map(|step| step.name).collect();
        bail!("unknown step `{unknown}`; known: {}", known.join(", "));
    }
    let is_chosen = |step: &&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(steps.into_iter().filter(is_chosen).collect())
}

impl<'a> Checks<'a> {
    fn new(project: &'a Project, build: Option<Build>, how: How) -> Self {
        let temporary = project.workspace.target_dir.join("xtask/tmp");
        let provision = Provision::new(project, build);
        Self { project, provision, how, fast: false, bless: false, length: Length::default(), temporary }
    }

    fn run(&self, steps: &[&Step]) -> Result<ExitCode> {
        if self.how.list {
            for Step { name, checks, .. } in steps {
                println!("{name:<14}  {checks}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        let folder = self.project.shell.create_dir(self.project.workspace.target_dir.join("xtask"))?;
        let _lock = Lock::take(&folder.join("lock"))?;
        self.clear_temporary()?;
        self.project.shell.set_var("TMPDIR", &self.temporary);
        let (watch, mut ended) = (Watch::start(), Vec::<Ended>::new());
        for step in steps {
            ended.push(self.run_step(step));
            if self.how.fail_fast && ended.iter().any(Ended::failed) {
                break;
            }
        }
        print!("{}", summary(&ended, &watch.seconds(), steps.len()));
        Ok(ExitCode::from(u8::from(ended.iter().any(Ended::failed))))
    }

    fn run_step(&self, step: &Step) -> Ended {
        self.project.heading(&format!("{}: {}", step.name, step.checks));
        let watch = Watch::start();
        let result = (step.run)(self).and_then(|note| self.nothing_is_left().map(|()| note));
        let ended = Ended { name: step.name, result, seconds: watch.seconds() };
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
            if self.how.fail_fast && !failures.is_empty() {
                break;
            }
        }
        all_clear(&failures).map(|()| count)
    }

    /// The same, with nothing to note.
    fn pass<'c>(&self, commands: impl IntoIterator<Item = Cmd<'c>>) -> Result<String> {
        self.run_all(commands).map(|_| String::new())
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
        let chosen = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            let steps = choose(|when| when == When::Fast, &names)?;
            Ok::<_, anyhow::Error>(steps.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[]).unwrap(), ["fmt", "layout", "clippy", "test"]);
        assert_eq!(chosen(&["test", "fmt", "test"]).unwrap(), ["fmt", "test"]);
        let error = chosen(&["fmt", "tset"]).unwrap_err();
        assert_eq!(error.to_string(), "unknown step `tset`; known: fmt, layout, clippy, test");
    }
}
