//! What is checked without running anything of ours: format, lints, documentation.

use std::path::Path;

use anyhow::{Result, bail};
use xshell::Cmd;

use super::Checks;
use crate::project::{Features, Project};

pub(super) fn fmt(checks: &Checks<'_>) -> Result<String> {
    needs(checks.project, "fmt", "rustfmt")?;
    checks.pass([checks.project.cargo("fmt").args(["--all", "--check"])])
}

/// What needs libtorch is there as far as the compiler looks, and none is needed: all features include
/// `doc-only`.
pub(super) fn clippy(checks: &Checks<'_>) -> Result<String> {
    needs(checks.project, "clippy", "clippy")?;
    checks.pass([strict_lint(checks.project.cargo_everything("clippy").arg("--all-targets"))])
}

/// Every target with no feature; the libraries with each feature alone, because a target of ours is built with
/// all features or none.
pub(super) fn features(checks: &Checks<'_>) -> Result<String> {
    needs(checks.project, "clippy", "clippy")?;
    let project = checks.project;
    let bare = project.cargo_all("clippy", Features::None).arg("--all-targets");
    let features = project.workspace.facade().features();
    let alone = features.map(|feature| project.cargo_all("clippy", Features::One(feature)).arg("--lib"));
    // candle's `cuda` turns this on.
    let linked =
        project.cargo("clippy").args(["-p", "toma-cuda", "--features", "cudarc/dynamic-linking", "--lib"]);
    let count = checks.run_all([bare, linked].into_iter().chain(alone).map(strict_lint))?;
    Ok(format!("{count} sets of features"))
}

/// Systems on which nobody runs the checks.
const TARGETS: [&str; 2] = ["aarch64-apple-darwin", "x86_64-pc-windows-msvc"];

/// Only those whose standard library is installed, which the note names.
pub(super) fn targets(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let has = |target: &&str| {
        let folder =
            project.command("rustc").args(["--print", "target-libdir", "--target", target]).quiet().read();
        folder.is_ok_and(|folder| Path::new(&folder).is_dir())
    };
    let (there, missing): (Vec<_>, Vec<_>) = TARGETS.into_iter().partition(has);
    let check = |target| project.cargo_all("check", Features::All).args(["--lib", "--target", target]);
    checks.run_all(there.into_iter().map(check))?;
    let install = |target| format!("SKIPPED {target}: `rustup target add {target}` installs it");
    Ok(missing.into_iter().map(install).collect::<Vec<_>>().join("; "))
}

/// One list of lints for every caller: cargo checks again whatever it checked with another list.
fn strict_lint(clippy: Cmd<'_>) -> Cmd<'_> {
    clippy.args(["--", "-D", "warnings", "-D", "clippy::incompatible_msrv"])
}

/// Fails with the cure when a part of the Rust toolchain is not there.
fn needs(project: &Project, subcommand: &str, component: &str) -> Result<()> {
    match project.cargo(subcommand).arg("--version").quiet().ignore_stdout().ignore_stderr().run() {
        Ok(()) => Ok(()),
        Err(_) => bail!("{component}: not installed; `rustup component add {component}` adds it"),
    }
}

/// As readers see it; it stays in the target folder to be read.
pub(super) fn doc(checks: &Checks<'_>) -> Result<String> {
    checks.pass([document(checks.project)])
}

/// With private items, for the links in them.
pub(super) fn private_doc(checks: &Checks<'_>) -> Result<String> {
    checks.pass([document(checks.project).arg("--document-private-items")])
}

fn document(project: &Project) -> Cmd<'_> {
    project.cargo_everything("doc").arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings")
}
