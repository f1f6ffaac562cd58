//! Tests that need a process of their own: for its environment, its standard error or its limits, or because a failure
//! would end the process.

#![allow(dead_code, reason = "no program of tests uses all of it")]

use std::env;
use std::process::{Child, Command, ExitStatus, Stdio};

const MARK: &str = "TOMA_TEST_CHILD";

/// Outcome of a child process.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Lines that the child wrote to standard error.
    pub(crate) stderr: Vec<String>,
}

impl Ended {
    /// Asserts that the part of the test in the child passed, and returns its lines on standard error.
    pub(crate) fn passed(self) -> Vec<String> {
        assert!(self.status.success(), "{:?}\n{}", self.status, self.stderr.join("\n"));
        self.stderr
    }
}

/// Runs the test of this name in a process of its own, and prints the child's standard output. Returns `None` in that
/// process.
///
/// The name is the path of the calling function from the root of this program.
pub(crate) fn run(test: &str, settings: &[(&str, &str)]) -> Option<Ended> {
    let output = command(test, settings)?.output().expect("this program can be started again");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(stdout.contains("running 1 test"), "{test}: no such test\n{stdout}");
    print!("{stdout}");
    Some(Ended { status: output.status, stderr: stderr.lines().map(str::to_owned).collect() })
}

/// Runs a test in a process of its own, in which it may change process-wide settings.
pub(crate) fn alone(test: &str, check: impl FnOnce()) {
    match run(test, &[]) {
        Some(ended) => drop(ended.passed()),
        None => check(),
    }
}

/// Works like [`run`], with the read end of the child's standard error closed.
pub(crate) fn run_unheard(test: &str, settings: &[(&str, &str)]) -> Option<ExitStatus> {
    let mut command = command(test, settings)?;
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    // The child starts only now, see `wait_to_be_unheard`.
    drop(child.stdin.take());
    Some(child.wait().unwrap())
}

/// Waits, in the child of [`run_unheard`], until the parent has closed its end of standard error.
pub(crate) fn wait_to_be_unheard() {
    std::io::stdin().lines().for_each(drop);
}

fn command(test: &str, settings: &[(&str, &str)]) -> Option<Command> {
    if env::var_os(MARK).is_some() {
        return None;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env(MARK, "1");
    for unset in ["TOMA_LOG", "TOMA_DISABLE", "TOMA_INJECT", "RUST_TEST_THREADS"] {
        command.env_remove(unset);
    }
    command.env("RUST_BACKTRACE", "0").envs(settings.iter().copied());
    Some(command)
}

/// Starts the test of this name in a process of its own with piped outputs. Returns `None` in that process.
pub(crate) fn start(test: &str, settings: &[(&str, &str)]) -> Option<Child> {
    let mut command = command(test, settings)?;
    Some(
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("this program can be started again"),
    )
}
