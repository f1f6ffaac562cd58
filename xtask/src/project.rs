//! The workspace at hand and the commands that are run in it.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;

use anyhow::{Context as _, Result};
use serde_json::Value;
use xshell::{Cmd, Shell};

use crate::metadata::Workspace;

/// The workspace, with a shell at its root.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) shell: Shell,
    pub(crate) workspace: Workspace,
    /// No colors and no progress bars.
    plain: bool,
}

/// A choice of features of the packages that are checked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Features<'a> {
    None,
    One(&'a str),
    All,
}

impl Project {
    /// Finds the workspace around the current directory.
    pub(crate) fn find() -> Result<Self> {
        let shell = Shell::new()?;
        let answer = command(&shell, "cargo".into()).args(["metadata", "--format-version=1", "--no-deps"]);
        let answer: Value = serde_json::from_str(&answer.quiet().read()?).context("cargo metadata")?;
        let workspace = Workspace::parse(&answer, env!("CARGO_PKG_NAME"))?;
        shell.change_dir(&workspace.root);
        let plain = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false");
        Ok(Self { shell, workspace, plain })
    }

    /// `cargo SUBCOMMAND`, at the root of the workspace.
    pub(crate) fn cargo(&self, subcommand: &str) -> Cmd<'_> {
        let cargo = self.command("cargo").arg(subcommand);
        if self.plain {
            cargo.env("CARGO_TERM_COLOR", "never").env("CARGO_TERM_PROGRESS_WHEN", "never")
        } else {
            cargo
        }
    }

    /// `cargo SUBCOMMAND` for every package that is checked.
    ///
    /// Always the same packages: another choice would give shared dependencies other features, and so build
    /// them again.
    pub(crate) fn cargo_all(&self, subcommand: &str) -> Cmd<'_> {
        self.workspace
            .packages
            .iter()
            .fold(self.cargo(subcommand), |cargo, package| cargo.arg("-p").arg(&package.name))
    }

    /// `program`, at the root of the workspace.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Cmd<'_> {
        command(&self.shell, program.as_ref().to_owned())
    }

    /// No feature, each feature of the facade alone, all features.
    pub(crate) fn feature_sets(&self) -> Result<Vec<Features<'_>>> {
        let alone = self.workspace.facade()?.features.iter().map(|feature| Features::One(feature));
        Ok([Features::None].into_iter().chain(alone).chain([Features::All]).collect())
    }

    /// Prints a line that stands out.
    pub(crate) fn heading(&self, line: &str) {
        if self.plain || std::env::var_os("NO_COLOR").is_some() || !std::io::stderr().is_terminal() {
            eprintln!("\n== {line}");
        } else {
            eprintln!("\n\x1b[1m== {line}\x1b[0m");
        }
    }
}

impl Features<'_> {
    /// The options that choose them.
    pub(crate) fn args(self) -> Vec<String> {
        let args: &[&str] = match self {
            Self::None => &["--no-default-features"],
            Self::One(feature) => &["--no-default-features", "--features", feature],
            Self::All => &["--all-features"],
        };
        args.iter().map(|&arg| arg.to_owned()).collect()
    }
}

/// A command without the variables that steer toma, which would make a check mean something else
/// on a machine where somebody has set them.
fn command(shell: &Shell, program: OsString) -> Cmd<'_> {
    let ours = std::env::vars_os().map(|(name, _)| name).filter(|name| steers_toma(name));
    ours.fold(shell.cmd(program), Cmd::env_remove)
}

fn steers_toma(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"TOMA_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_toma_are_taken_away() {
        assert!(steers_toma(OsStr::new("TOMA_LOG")));
        for kept in ["CARGO_TARGET_DIR", "RUST_BACKTRACE", "NOT_TOMA_LOG", "TOMATO"] {
            assert!(!steers_toma(OsStr::new(kept)), "{kept}");
        }
    }

    #[test]
    fn each_feature_stands_alone() {
        assert_eq!(Features::One("ndarray").args(), ["--no-default-features", "--features", "ndarray"]);
    }
}
