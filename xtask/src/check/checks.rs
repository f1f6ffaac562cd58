//! Input and helpers of all steps.

use std::io::{self, Write as _};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use xshell::Cmd;

use crate::project::Project;
use crate::setup::Provision;
use crate::setup::torch::Build;

#[derive(Args, Debug, Default)]
pub(crate) struct How {
    /// Only these steps, in the order in which they always run
    pub(crate) steps: Vec<String>,
    /// Print the name and the purpose of each step
    #[arg(long)]
    pub(super) list: bool,
    /// Begin no other step or program after a failure
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// Begin at this step, to resume an interrupted run
    #[arg(long, value_name = "STEP", conflicts_with = "steps")]
    pub(super) from: Option<String>,
}

/// Length and seed of the stress tests.
#[derive(Args, Debug, Default)]
pub(super) struct Length {
    /// Number of attempts in each stress test
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(super) attempts: u64,
    /// Repeat the choices of the stress test that printed this seed
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
}

/// The input of a step.
#[derive(Debug)]
pub(super) struct Checks<'a> {
    pub(super) project: &'a Project,
    /// Requirements of some steps in addition to Rust.
    pub(super) provision: Provision<'a>,
    pub(super) how: How,
    /// Without slow tests.
    pub(super) fast: bool,
    pub(super) length: Length,
}

/// A completed step or program, with its note or its problems.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) time: Duration,
    pub(super) result: Result<String>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(project: &'a Project, build: Option<Build>, how: How) -> Self {
        let provision = Provision::new(project, build);
        Self { project, provision, how, fast: false, length: Length::default() }
    }

    /// Runs every command, so that one failure hides no other, and returns their number.
    pub(super) fn run_all<'c>(&self, commands: impl IntoIterator<Item = Cmd<'c>>) -> Result<usize> {
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

    /// Runs programs two at a time, and returns what each printed, in the order in which they ended.
    pub(super) fn run_in_pairs<'c>(
        &self,
        programs: impl IntoIterator<Item = Cmd<'c>>,
    ) -> Result<Vec<String>> {
        let named = programs.into_iter().map(|program| (program.to_string(), program.into()));
        let ended = in_pairs(named.collect(), self.how.fail_fast);
        let failures = ended.iter().filter_map(|ended| Some(format!("{:#}", ended.result.as_ref().err()?)));
        all_clear(&failures.collect::<Vec<_>>())?;
        ended.into_iter().map(|ended| ended.result).collect()
    }

    /// Runs every command, and returns an empty note.
    pub(super) fn pass<'c>(&self, commands: impl IntoIterator<Item = Cmd<'c>>) -> Result<String> {
        self.run_all(commands).map(|_| String::new())
    }

    /// Runs programs two at a time, and returns an empty note.
    pub(super) fn pass_in_pairs<'c>(&self, programs: impl IntoIterator<Item = Cmd<'c>>) -> Result<String> {
        self.run_in_pairs(programs).map(|_| String::new())
    }
}

/// Runs programs two at a time, because most of them keep one core busy. Each prints when it has ended, and the result
/// is its standard output. With `fail_fast` no program begins after a failure.
pub(super) fn in_pairs(programs: Vec<(String, Command)>, fail_fast: bool) -> Vec<Ended> {
    let (queue, ended) = (Mutex::new(programs.into_iter()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            // In a statement of its own, so that the lock is released before the program runs.
            let program = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((name, program)) = program else { break };
            let begun = Instant::now();
            let result = run_quietly(&name, program);
            let done = Ended { name, time: begun.elapsed(), result };
            if fail_fast && done.result.is_err() {
                *queue.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new().into_iter();
            }
            ended.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program and prints its whole output when it ends, so that the outputs of two do not mix. Returns its standard
/// output.
fn run_quietly(line: &str, mut program: Command) -> Result<String> {
    let Output { status, stdout, stderr } =
        program.output().with_context(|| format!("cannot run `{line}`"))?;
    let (mut out, mut errors) = (io::stdout().lock(), io::stderr().lock());
    errors.write_all(&stderr)?;
    out.write_all(&stdout)?;
    ensure!(status.success(), "`{line}`: {status}");
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Fails with the problems, one per line, if there are any.
pub(super) fn all_clear(problems: &[String]) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { bail!(problems.join("\n")) }
}

/// The count with the word in singular or plural.
pub(super) fn counted(count: usize, word: &str) -> String {
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
    fn nothing_to_do_is_printed() {
        assert_eq!(counted(0, "example"), "no examples");
        assert_eq!(counted(1, "example"), "1 example");
        assert_eq!(counted(2, "run"), "2 runs");
    }

    #[test]
    fn programs_in_pairs_all_run_and_those_that_fail_are_named() {
        let project = Project::find().unwrap();
        let checks = Checks::new(&project, None, How::default());
        let run = |scripts: &[&str]| {
            checks.run_in_pairs(scripts.iter().map(|script| project.command("sh").args(["-c", script])))
        };
        assert_eq!(run(&["echo 1", "true"]).unwrap().concat(), "1\n");
        let error = run(&["exit 3", "true", "exit 4"]).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("exit status: 4"), "{error}");
    }

    #[test]
    fn with_fail_fast_no_program_begins_after_a_failure() {
        let program = |script: &str| {
            let mut program = Command::new("sh");
            program.args(["-c", script]);
            (script.to_owned(), program)
        };
        let programs = ["exit 3", "exit 4", "true", "true"].map(program);
        assert!(in_pairs(programs.into(), true).len() <= 2, "each of two workers begins one program at most");
    }
}
