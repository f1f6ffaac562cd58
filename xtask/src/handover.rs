//! Programs that the user requested: they get our standard input, and their exit code becomes ours.

use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context as _, Result};
use xshell::Cmd;

/// Runs the commands in order until one fails, which has printed the reason itself: its exit code becomes ours.
///
/// Not [`Cmd::run`], which gives a program an empty input and reports the code as an error.
pub(crate) fn run<'a>(commands: impl IntoIterator<Item = Result<Cmd<'a>>>) -> Result<ExitCode> {
    Ok(ExitCode::from(first_failure(commands)?))
}

fn first_failure<'a>(commands: impl IntoIterator<Item = Result<Cmd<'a>>>) -> Result<u8> {
    for command in commands {
        let command = command?;
        eprintln!("$ {command}");
        let context = format!("cannot run `{command}`");
        let status = Command::from(command).status().context(context)?;
        if !status.success() {
            return Ok(code(status));
        }
    }
    Ok(0)
}

/// Exit code as shells report it: a program that a signal ended has 128 more than the signal's number.
fn code(status: ExitStatus) -> u8 {
    let code = status.code();
    #[cfg(unix)]
    let code = code.or_else(|| Some(128 + std::os::unix::process::ExitStatusExt::signal(&status)?));
    code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use xshell::Shell;

    use super::*;

    /// Set if the test below runs in a process of its own, whose standard input is a pipe.
    const PIPED: &str = "XTASK_TEST_PIPED";

    fn after(scripts: &[&str]) -> Result<u8> {
        let shell = Shell::new()?;
        first_failure(scripts.iter().map(|script| Ok(shell.cmd("sh").args(["-c", script]))))
    }

    #[test]
    fn piped_input_reaches_the_program() {
        if std::env::var_os(PIPED).is_some() {
            assert_eq!(after(&["read first; read second; echo \"it read $second\""]).unwrap(), 0);
            return;
        }
        let pipe = "printf 'one line\\nanother\\n' | \"$0\" piped_input_reaches_the_program --nocapture";
        let mut ours = Command::new("sh");
        let output =
            ours.args(["-c", pipe]).arg(std::env::current_exe().unwrap()).env(PIPED, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("it read another"), "{text}");
    }

    #[test]
    fn the_first_failure_ends_it_and_its_code_is_passed_on() {
        assert_eq!(after(&[]).unwrap(), 0);
        assert_eq!(after(&["exit 0", "exit 7", "exit 8"]).unwrap(), 7);
        assert_eq!(after(&["kill -9 $$"]).unwrap(), 137);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let shell = Shell::new().unwrap();
        let error = first_failure([Ok(shell.cmd("/nowhere/program").arg("x"))]).unwrap_err();
        assert_eq!(error.to_string(), "cannot run `/nowhere/program x`");
    }
}
