//! The current workspace and the commands that are run in it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use xshell::{Cmd, Shell};

use crate::metadata::{Metadata, Package, Workspace};

/// The workspace, with a shell at its root.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) shell: Shell,
    pub(crate) workspace: Workspace,
    /// A shell in the user's current folder.
    pub(crate) caller: Shell,
}

/// A choice of features, none of which needs libtorch.
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
        let locate = ["locate-project", "--workspace", "--message-format=plain"];
        let manifest = command(&shell, "cargo".into()).args(locate).quiet().read()?;
        // In other folders cargo would take the package around the current folder as the default members.
        shell.change_dir(Path::new(&manifest).parent().context("the workspace has no folder")?);
        let workspace = Workspace::new(metadata(&shell)?, env!("CARGO_PKG_NAME"));
        Ok(Self { shell, workspace, caller: Shell::new()? })
    }

    /// `cargo SUBCOMMAND`, at the root of the workspace.
    pub(crate) fn cargo(&self, subcommand: &str) -> Cmd<'_> {
        self.command("cargo").arg(subcommand)
    }

    /// `cargo SUBCOMMAND` in the user's current folder, so that relative paths stay valid, and with the user's own
    /// settings.
    pub(crate) fn cargo_of_caller(&self, subcommand: &str) -> Cmd<'_> {
        let manifest = self.workspace.root.join("Cargo.toml");
        self.caller.cmd("cargo").arg(subcommand).arg("--manifest-path").arg(manifest)
    }

    /// `cargo SUBCOMMAND` for every package that needs no libtorch.
    ///
    /// Always the same packages, because another choice would give shared dependencies other features, and so rebuild
    /// them.
    pub(crate) fn cargo_all(&self, subcommand: &str, features: Features<'_>) -> Cmd<'_> {
        let packages: Vec<_> = self.workspace.packages.iter().collect();
        of_packages(self.cargo(subcommand), &packages).args(features.args(&packages))
    }

    /// `cargo SUBCOMMAND` for every package, with every feature. The compiler also sees the code that needs libtorch,
    /// and no libtorch is needed, because the features include `doc-only`.
    pub(crate) fn cargo_everything(&self, subcommand: &str) -> Cmd<'_> {
        let packages: Vec<_> = self.workspace.all_packages().collect();
        of_packages(self.cargo(subcommand), &packages).arg("--all-features")
    }

    /// `program`, at the root of the workspace.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Cmd<'_> {
        command(&self.shell, program.as_ref().to_owned())
    }

    /// The packages with uncommitted changes.
    pub(crate) fn changed<'a>(&self, packages: &'a [Package]) -> Result<Vec<&'a Package>> {
        let mut changed = Vec::new();
        for package in packages {
            let parts = ["Cargo.toml", "build", "shim", "src", "tests"];
            let parts = parts.map(|part| package.manifest.with_file_name(part));
            let git = self.command("git").args(["-c", "safe.directory=*", "status", "--porcelain", "--"]);
            let is_same = git.args(parts).quiet().read()?.is_empty();
            changed.extend((!is_same).then_some(package));
        }
        Ok(changed)
    }

    /// The files of a folder, in order, without those that git ignores. Paths start at the root of the repository.
    pub(crate) fn files(&self, folder: &str) -> Result<Vec<String>> {
        let git = self.command("git").args(["-c", "safe.directory=*", "ls-files", "-z", "--deduplicate"]);
        let list = git.args(["-co", "--exclude-standard", "--", folder]).quiet().read()?;
        // git still lists a file that is deleted without a commit.
        let is_there = |path: &&str| self.workspace.root.join(path).exists();
        let mut files: Vec<_> = list.split_terminator('\0').filter(is_there).map(str::to_owned).collect();
        files.sort();
        Ok(files)
    }

    /// The concatenated texts of the files of a folder.
    pub(crate) fn texts(&self, folder: &str) -> Result<String> {
        self.files(folder)?.into_iter().map(|file| Ok(self.shell.read_file(file)?)).collect()
    }

    /// Prints a line that stands out.
    pub(crate) fn heading(&self, line: &str) {
        let is_bold = self.shell.var_os("NO_COLOR").is_none() && std::io::stderr().is_terminal();
        let [bold, normal] = if is_bold { ["\x1b[1m", "\x1b[0m"] } else { [""; 2] };
        eprintln!("\n{bold}== {line}{normal}");
    }
}

impl Features<'_> {
    /// The options that select these features in a build of `packages`.
    ///
    /// Not `--all-features`, which would include features that need libtorch.
    pub(crate) fn args(self, packages: &[&Package]) -> Vec<String> {
        let every = || packages.iter().flat_map(|package| package.features()).collect::<BTreeSet<_>>();
        match self {
            Self::None => vec!["--no-default-features".to_owned()],
            Self::One(feature) => vec!["--no-default-features".to_owned(), format!("--features={feature}")],
            Self::All => every().into_iter().map(|feature| format!("--features={feature}")).collect(),
        }
    }
}

fn of_packages<'a>(cargo: Cmd<'a>, packages: &[&Package]) -> Cmd<'a> {
    packages.iter().fold(cargo, |cargo, package| cargo.arg("-p").arg(&package.name))
}

fn metadata(shell: &Shell) -> Result<Metadata> {
    let answer = command(shell, "cargo".into()).args(["metadata", "--format-version=1", "--no-deps"]).quiet();
    serde_json::from_str(&answer.read()?).context("cargo metadata")
}

/// A command without the variables that configure toma, with which a check could have another result on a machine where
/// they are set.
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
    use serde_json::{Value, json};

    use crate::tests::{metadata, package};

    #[test]
    fn only_variables_of_toma_are_taken_away() {
        assert!(steers_toma(OsStr::new("TOMA_LOG")));
        for kept in ["CARGO_TARGET_DIR", "RUST_BACKTRACE", "NOT_TOMA_LOG", "TOMATO"] {
            assert!(!steers_toma(OsStr::new(kept)), "{kept}");
        }
    }

    #[test]
    fn each_feature_stands_alone() {
        assert_eq!(Features::One("ndarray").args(&[]), ["--no-default-features", "--features=ndarray"]);
    }

    #[test]
    fn all_features_are_those_of_any_package_that_need_no_libtorch() {
        let of = |features: Value, libtorch: &[&str]| {
            let tables = json!({ "toma": { "libtorch-features": libtorch } });
            let package = package("core", json!({ "features": features, "metadata": tables }));
            metadata(&[package]).unwrap().packages.remove(0)
        };
        let facade = of(json!({ "b": [], "tch": [], "default": [] }), &["tch"]);
        let core = of(json!({ "a": [], "b": [] }), &[]);
        assert_eq!(Features::All.args(&[&facade, &core]), ["--features=a", "--features=b"]);
        assert_eq!(Features::All.args(&[&facade]), ["--features=b"]);
        assert_eq!(Features::All.args(&[]), [""; 0]);
    }
}
