//! What every step works with.

use anyhow::{Result, bail};
use clap::Args;
use xshell::Cmd;

use crate::project::Project;
use crate::setup::Provision;
use crate::setup::torch::Build;

#[derive(Args, Debug)]
pub(crate) struct How {
    /// Only these steps, in the order in which they always run
    pub(crate) steps: Vec<String>,
    /// Print the name of each step and what it checks
    #[arg(long)]
    pub(super) list: bool,
    /// Stop at the first failure instead of going on
    #[arg(long)]
    pub(crate) fail_fast: bool,
}

/// What the stress tests go by; they say themselves what is wrong with a number.
#[derive(Args, Debug, Default)]
pub(super) struct Length {
    /// As many attempts in each stress test
    #[arg(long, value_name = "N", default_value = "1000000")]
    pub(super) attempts: String,
    /// The choices of the stress test that printed this seed
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<String>,
}

/// What a step works with.
#[derive(Debug)]
pub(super) struct Checks<'a> {
    pub(super) project: &'a Project,
    /// What some steps need besides Rust.
    pub(super) provision: Provision<'a>,
    pub(super) how: How,
    /// Without slow tests.
    pub(super) fast: bool,
    pub(super) length: Length,
}

impl<'a> Checks<'a> {
    pub(super) fn new(project: &'a Project, build: Option<Build>, how: How) -> Self {
        let provision = Provision::new(project, build);
        Self { project, provision, how, fast: false, length: Length::default() }
    }

    /// Runs every command, so that one failure hides no other, and says how many there were.
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

    /// The same, with nothing to note.
    pub(super) fn pass<'c>(&self, commands: impl IntoIterator<Item = Cmd<'c>>) -> Result<String> {
        self.run_all(commands).map(|_| String::new())
    }
}

/// Fails with the problems, one per line, when there are any.
pub(super) fn all_clear(problems: &[String]) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { bail!(problems.join("\n")) }
}

/// How many there are, in words.
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
    fn nothing_to_do_is_said() {
        assert_eq!(counted(0, "example"), "no examples");
        assert_eq!(counted(1, "example"), "1 example");
        assert_eq!(counted(2, "run"), "2 runs");
    }
}
