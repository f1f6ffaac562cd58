//! Processes of a test's own: to be killed, to write at the same time, to be listened to.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

const MARK: &str = "TOMA_TEST_CHILD";

/// What a child was told, in the child.
pub(crate) fn order() -> Option<String> {
    env::var(MARK).ok()
}

/// This program again, for the test of this name alone, with an order for it and a home of its own.
///
/// The name is the path of the test from the root of this program.
pub(crate) fn command(test: &str, order: &str, home: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(MARK, order);
    for unset in ["TOMA_LOG", "TOMA_DISABLE", "TOMA_INJECT", "RUST_TEST_THREADS"] {
        command.env_remove(unset);
    }
    command.env("RUST_BACKTRACE", "0").env("HOME", home).env("XDG_CACHE_HOME", home.join("cache"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the child to its end, which must be a good one; its standard error by lines.
pub(crate) fn run(test: &str, order: &str, home: &Path) -> Vec<String> {
    let output = command(test, order, home).output().expect("this program can be started again");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(stdout.contains("running 1 test"), "{test}: no such test\n{stdout}");
    assert!(output.status.success(), "{test} {order}: {:?}\n{stdout}\n{stderr}", output.status);
    stderr.lines().map(str::to_owned).collect()
}
