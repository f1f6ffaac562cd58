//! `cargo xtask test` and `cargo xtask nightly`: checks, each a step with a name.

mod card;
mod checks;
mod fixtures;
mod layout;
mod lints;
mod marks;
mod nightly;
mod package;
mod programs;
mod steps;
mod suites;
mod torch;

use std::env::{args, current_exe};
use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Args;
use xshell::TempDir;

use crate::project::Project;
use crate::setup::torch::Build;
use checks::{Checks, Ended, How, Length, all_clear, counted, in_pairs};
use steps::{STEPS, Step, When};

#[derive(Args, Debug)]
pub(crate) struct Test {
    #[command(flatten)]
    pub(crate) how: How,
    /// The checks before each commit: format, layout, lints, unit tests, and for packages with uncommitted changes the
    /// other tests, except slow ones
    #[arg(long)]
    fast: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Nightly {
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    length: Length,
}

impl Test {
    pub(crate) fn run(self, build: Option<Build>) -> Result<ExitCode> {
        let (project, fast) = (Project::find()?, self.fast);
        let torch = !fast || !project.changed(&project.workspace.with_libtorch)?.is_empty();
        let is_run = |when| match when {
            When::Fast => true,
            When::TorchChanged => torch,
            When::Full => !fast,
            When::Nightly => false,
        };
        let checks = Checks { fast, ..Checks::new(&project, build, self.how) };
        checks.run(&checks.how.choose(is_run)?)
    }
}

impl Nightly {
    pub(crate) fn run(self, build: Option<Build>) -> Result<ExitCode> {
        let project = Project::find()?;
        let checks = Checks { length: self.length, ..Checks::new(&project, build, self.how) };
        let steps = checks.how.choose(|when| when == When::Nightly)?;
        if steps.len() == 1 || checks.how.list {
            checks.run(&steps)
        } else {
            checks.run_two_at_a_time(&steps)
        }
    }
}

impl How {
    /// The requested steps of a command, in the order in which they always run; all if none is requested.
    fn choose(&self, of_command: impl Fn(When) -> bool) -> Result<Vec<&'static Step>> {
        let steps: Vec<_> = STEPS.iter().filter(|step| of_command(step.when)).collect();
        let known: Vec<_> = steps.iter().map(|step| step.name).collect();
        let mut named = self.steps.iter().chain(&self.from);
        if let Some(unknown) = named.find(|name| !known.contains(&name.as_str())) {
            bail!("unknown step `{unknown}`; known: {}", known.join(", "));
        }
        let is_before = |step: &&Step| self.from.as_ref().is_some_and(|from| step.name != *from);
        let is_chosen =
            |step: &&Step| self.steps.is_empty() || self.steps.iter().any(|name| name == step.name);
        Ok(steps.into_iter().skip_while(is_before).filter(is_chosen).collect())
    }
}

impl Checks<'_> {
    fn run(&self, steps: &[&Step]) -> Result<ExitCode> {
        if self.how.list {
            for Step { name, checks, .. } in steps {
                println!("{name:<14}  {checks}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        self.project.shell.create_dir(self.project.workspace.target_dir.join("xtask"))?;
        let needs_libtorch = steps.iter().any(|step| step.when == When::TorchChanged);
        let _installing = needs_libtorch.then(|| self.provision.begin()).transpose()?;
        let mut ended = Vec::new();
        for step in steps {
            ended.push(self.run_step(step)?);
            if self.how.fail_fast && ended.iter().any(|step| step.result.is_err()) {
                break;
            }
        }
        Ok(print_results(&ended))
    }

    /// Runs each step in a process of its own.
    fn run_two_at_a_time(&self, steps: &[&Step]) -> Result<ExitCode> {
        self.provision.libtorch()?;
        let this = current_exe()?;
        let libtorch: Vec<_> = args().filter(|arg| ["--cpu", "--cuda"].contains(&&**arg)).collect();
        let seed = self.length.seed.map(|seed| format!("--seed={seed}"));
        let attempts = format!("--attempts={}", self.length.attempts);
        let program = |step: &&Step| {
            let command = self.project.command(&this).args(["nightly", step.name, &attempts]);
            (step.name.to_owned(), command.args(&libtorch).args(&seed).into())
        };
        let ended = in_pairs(steps.iter().map(program).collect(), self.how.fail_fast).into_iter();
        let noted = ended.map(|step| Ended { result: step.result.map(|output| note(&output)), ..step });
        Ok(print_results(&noted.collect::<Vec<_>>()))
    }

    /// Runs a step, whose programs have a temporary folder of their own.
    fn run_step(&self, step: &Step) -> Result<Ended> {
        let (project, begun) = (self.project, Instant::now());
        project.heading(&format!("{}: {}", step.name, step.checks));
        let temporary = project.shell.create_temp_dir()?;
        let _variable = project.shell.push_env("TMPDIR", temporary.path());
        let result = (step.run)(self).and_then(|note| nothing_is_left(&temporary).map(|()| note));
        Ok(Ended { name: step.name.to_owned(), time: begun.elapsed(), result })
    }
}

/// Prints the results of all steps, and returns the exit code.
fn print_results(ended: &[Ended]) -> ExitCode {
    print!("\n{}", table(ended));
    ExitCode::from(u8::from(ended.iter().any(|step| step.result.is_err())))
}

/// The note in the last line of the output, which is the table of a single step.
fn note(output: &str) -> String {
    let row = output.lines().last().and_then(|row| row.split_once(" s  ok"));
    row.map(|(_, note)| note.trim().to_owned()).unwrap_or_default()
}

/// A line for each step, with the seconds that passed, then the problems of those that failed.
fn table(ended: &[Ended]) -> String {
    let lines = ended.iter().map(|Ended { name, time, result }| {
        let (word, note) = result.as_ref().map_or(("FAILED", ""), |note| ("ok", note));
        format!("{name:<14}  {:>7.1} s  {word:<6}  {note}", time.as_secs_f64()).trim_end().to_owned() + "\n"
    });
    let problems = ended.iter().filter_map(|Ended { name, result, .. }| {
        let error = format!("{:#}", result.as_ref().err()?);
        Some(format!("\n{name}:\n  {}\n", error.replace('\n', "\n  ")))
    });
    lines.chain(problems).collect()
}

/// Fails with the names of the files that a step has left in its temporary folder.
fn nothing_is_left(temporary: &TempDir) -> Result<()> {
    let left: Vec<_> = fs::read_dir(temporary.path())?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    ensure!(left.is_empty(), "left in the temporary folder: {}", left.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_table_shows_each_step_and_then_the_problems() {
        let ended =
            |name: &str, result| Ended { name: name.to_owned(), time: Duration::from_millis(1240), result };
        let problems = all_clear(&["a.rs:3: first".into(), "b.rs: second".into()]);
        let steps = [
            ended("fmt", Ok(String::new())),
            ended("layout", problems.map(|()| String::new())),
            ended("profiles", Ok("no fixtures".into())),
        ];
        let expected = "fmt                 1.2 s  ok\nlayout              1.2 s  FAILED\n\
                    profiles            1.2 s  ok      no fixtures\n\n\
                    layout:\n  a.rs:3: first\n  b.rs: second\n";
        assert_eq!(table(&steps), expected);
        let [fmt, _, profiles] = steps;
        assert_eq!([fmt, profiles].map(|step| note(&table(&[step]))), ["", "no fixtures"]);
    }

    #[test]
    fn a_file_left_behind_is_named() {
        let temporary = xshell::Shell::new().unwrap().create_temp_dir().unwrap();
        nothing_is_left(&temporary).unwrap();
        fs::write(temporary.path().join("left"), "").unwrap();
        let error = nothing_is_left(&temporary).unwrap_err().to_string();
        assert_eq!(error, "left in the temporary folder: left");
    }

    #[test]
    fn steps_run_once_and_in_their_own_order() {
        let chosen = |names: &[&str], from: Option<&str>| {
            let steps = names.iter().map(|&name| name.to_owned()).collect();
            let how = How { steps, from: from.map(str::to_owned), ..How::default() };
            let steps = how.choose(|when| when == When::Fast)?;
            Ok::<_, anyhow::Error>(steps.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[], None).unwrap(), ["fmt", "layout", "clippy", "test"]);
        assert_eq!(chosen(&["test", "fmt", "test"], None).unwrap(), ["fmt", "test"]);
        assert_eq!(chosen(&[], Some("clippy")).unwrap(), ["clippy", "test"]);
        for error in [chosen(&["fmt", "tset"], None), chosen(&[], Some("tset"))] {
            let error = error.unwrap_err().to_string();
            assert_eq!(error, "unknown step `tset`; known: fmt, layout, clippy, test");
        }
    }
}
