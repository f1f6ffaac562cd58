//! `cargo xtask test` and `cargo xtask nightly`: checks, each a step with a name.

mod card;
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

use std::fs;
use std::io::{self, Write as _};
use std::process::{Command, ExitCode, Output};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use xshell::{Cmd, TempDir};

use crate::project::Project;
use crate::setup::Provision;
use crate::setup::torch::Build;
use nightly::Length;
use steps::{STEPS, Step, When};

#[derive(Args, Debug)]
pub(crate) struct Test {
    #[command(flatten)]
    pub(crate) how: How,
    /// What to run before each commit: format, layout, lints, and tests with all features but for slow ones; with
    /// libtorch where files of toma-torch are changed and not committed
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
    /// Begin at this step: go on where a run ended
    #[arg(long, value_name = "STEP", conflicts_with = "steps")]
    from: Option<String>,
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
    length: Length,
}

/// A step that has run, with its note or its problems.
#[derive(Debug)]
struct Ended {
    name: &'static str,
    time: Duration,
    result: Result<String>,
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
        let checks = Checks { fast, ..Checks::new(&project, build, self.how) };
        checks.run(&checks.how.choose(is_run)?)
    }
}

impl Nightly {
    pub(crate) fn run(self, build: Option<Build>) -> Result<ExitCode> {
        let project = Project::find()?;
        let checks = Checks { length: self.length, ..Checks::new(&project, build, self.how) };
        checks.run(&checks.how.choose(|when| when == When::Nightly)?)
    }
}

impl How {
    /// Of the steps of a command those asked for, in the order in which they always run; all when none is.
    fn choose(&self, of_command: impl Fn(When) -> bool) -> Result<Vec<&'static Step>> {
        let steps: Vec<_> = STEPS.iter().filter(|step| of_command(step.when)).collect();
        if let Some(unknown) =
            self.steps.iter().chain(&self.from).find(|name| !steps.iter().any(|step| step.name == **name))
        {
            let known: Vec<_> = steps.iter().map(|step| step.name).collect();
            bail!("unknown step `{unknown}`; known: {}", known.join(", "));
        }
        let is_before = |step: &&Step| self.from.as_ref().is_some_and(|from| step.name != *from);
        let is_chosen =
            |step: &&Step| self.steps.is_empty() || self.steps.iter().any(|name| name == step.name);
        Ok(steps.into_iter().skip_while(is_before).filter(is_chosen).collect())
    }
}

impl<'a> Checks<'a> {
    fn new(project: &'a Project, build: Option<Build>, how: How) -> Self {
        let provision = Provision::new(project, build);
        Self { project, provision, how, fast: false, length: Length::default() }
    }

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
            if self.how.fail_fast && ended.iter().any(Ended::failed) {
                break;
            }
        }
        print!("\n{}", table(&ended));
        Ok(ExitCode::from(u8::from(ended.iter().any(Ended::failed))))
    }

    /// Runs a step, whose programs get a temporary folder of their own.
    fn run_step(&self, step: &Step) -> Result<Ended> {
        let (project, begun) = (self.project, Instant::now());
        project.heading(&format!("{}: {}", step.name, step.checks));
        let temporary = project.shell.create_temp_dir()?;
        let _variable = project.shell.push_env("TMPDIR", temporary.path());
        let result = (step.run)(self).and_then(|note| nothing_is_left(&temporary).map(|()| note));
        Ok(Ended { name: step.name, time: begun.elapsed(), result })
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

    /// Runs test programs two at a time, because most of them keep one core busy. Each prints when it has ended.
    fn run_in_pairs<'c>(&self, programs: impl IntoIterator<Item = Cmd<'c>>) -> Result<usize> {
        let programs: Vec<_> =
            programs.into_iter().map(|program| (program.to_string(), program.into())).collect();
        let (count, fail_fast) = (programs.len(), self.how.fail_fast);
        let (queue, failures) = (Mutex::new(programs.into_iter()), Mutex::new(Vec::new()));
        let work = || {
            while let Some((line, program)) = next(&queue) {
                let Err(problem) = run_quietly(&line, program) else { continue };
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{problem:#}"));
                if fail_fast {
                    break;
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(work);
            work();
        });
        all_clear(&failures.into_inner().unwrap_or_else(PoisonError::into_inner)).map(|()| count)
    }

    /// Runs every command, with nothing to note.
    fn pass<'c>(&self, commands: impl IntoIterator<Item = Cmd<'c>>) -> Result<String> {
        self.run_all(commands).map(|_| String::new())
    }
}

/// Takes one in a statement of its own, so that the lock is released before the program runs.
fn next<T>(queue: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// Runs a program and prints its output at once, so that the outputs of two do not mix.
fn run_quietly(line: &str, mut program: Command) -> Result<()> {
    let Output { status, stdout, stderr } =
        program.output().with_context(|| format!("cannot run `{line}`"))?;
    let (mut out, mut errors) = (io::stdout().lock(), io::stderr().lock());
    errors.write_all(&stderr)?;
    out.write_all(&stdout)?;
    ensure!(status.success(), "`{line}`: {status}");
    Ok(())
}

impl Ended {
    fn failed(&self) -> bool {
        self.result.is_err()
    }
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

/// Fails with the problems, one per line, when there are any.
fn all_clear(problems: &[String]) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { bail!(problems.join("\n")) }
}

/// How many there are, in words.
fn counted(count: usize, word: &str) -> String {
    match count {
        0 => format!("no {word}s"),
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_do_is_said() {
        assert_eq!(counted(0, "example"), "no examples");
        assert_eq!(counted(1, "example"), "1 example");
        assert_eq!(counted(2, "run"), "2 runs");
    }

    #[test]
    fn the_table_shows_each_step_and_then_the_problems() {
        let ended = |name, result| Ended { name, time: Duration::from_millis(1240), result };
        let problems = all_clear(&["a.rs:3: first".into(), "b.rs: second".into()]);
        let steps = [
            ended("fmt", Ok(String::new())),
            ended("layout", problems.map(|()| String::new())),
            ended("profiles", Ok("no fixtures".into())),
        ];
        let told = "fmt                 1.2 s  ok\nlayout              1.2 s  FAILED\n\
                    profiles            1.2 s  ok      no fixtures\n\n\
                    layout:\n  a.rs:3: first\n  b.rs: second\n";
        assert_eq!(table(&steps), told);
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
            let how = How { steps, list: false, fail_fast: false, from: from.map(str::to_owned) };
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

    #[test]
    fn programs_in_pairs_all_run_and_those_that_fail_are_named() {
        let project = Project::find().unwrap();
        let how = How { steps: Vec::new(), list: false, fail_fast: false, from: None };
        let checks = Checks::new(&project, None, how);
        let run = |scripts: &[&str]| {
            checks.run_in_pairs(scripts.iter().map(|script| project.command("sh").args(["-c", script])))
        };
        assert_eq!(run(&["true", "true", "true"]).unwrap(), 3);
        let error = run(&["exit 3", "true", "exit 4"]).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("exit status: 4"), "{error}");
    }
}
