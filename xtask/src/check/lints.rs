//! Checks that run no program of this repository: format, lints, documentation.

use std::path::Path;

use anyhow::Result;
use xshell::Cmd;

use super::Checks;
use crate::project::{Features, Project};

pub(super) fn fmt(checks: &Checks<'_>) -> Result<String> {
    checks.pass([checks.project.cargo("fmt").args(["--all", "--check"])])
}

/// Lints also cover the code that needs libtorch, without a libtorch: all features include `doc-only`.
pub(super) fn clippy(checks: &Checks<'_>) -> Result<String> {
    checks.pass([strict_lint(checks.project.cargo_everything("clippy").arg("--all-targets"))])
}

/// Lints every target with no feature, and the libraries with each feature alone. Other targets of this repository are
/// built with all features or none.
pub(super) fn features(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let bare = project.cargo_all("clippy", Features::None).arg("--all-targets");
    let features = project.workspace.facade().features();
    let alone = features.map(|feature| project.cargo_all("clippy", Features::One(feature)).arg("--lib"));
    // candle's `cuda` turns this feature on.
    let linked =
        project.cargo("clippy").args(["-p", "toma-cuda", "--features", "cudarc/dynamic-linking", "--lib"]);
    let count = checks.run_all([bare, linked].into_iter().chain(alone).map(strict_lint))?;
    Ok(format!("{count} sets of features"))
}

/// Systems on which nobody runs the checks.
const TARGETS: [&str; 2] = ["aarch64-apple-darwin", "x86_64-pc-windows-msvc"];

/// Checks only targets whose standard library is installed. The note names the skipped ones.
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

/// The same list of lints for every caller, because cargo repeats a check with another list.
fn strict_lint(clippy: Cmd<'_>) -> Cmd<'_> {
    clippy.args(["--", "-D", "warnings", "-D", "clippy::incompatible_msrv"])
}

/// Builds the public documentation, which stays in the target folder.
pub(super) fn doc(checks: &Checks<'_>) -> Result<String> {
    checks.pass([document(checks.project)])
}

/// Builds the documentation of private items, to check the links in them.
pub(super) fn private_doc(checks: &Checks<'_>) -> Result<String> {
    checks.pass([document(checks.project).arg("--document-private-items")])
}

fn document(project: &Project) -> Cmd<'_> {
    project.cargo_everything("doc").arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings")
}
