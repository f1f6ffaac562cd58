//! What is checked without running anything of ours: format, lints, documentation.

use anyhow::{Result, bail};
use serde_json::Value;
use xshell::Cmd;

use crate::metadata::{Package, strings};
use crate::project::Project;
use crate::test::Checks;

pub(super) fn fmt(checks: &Checks<'_>) -> Result<String> {
    needs(checks.project, "fmt", "rustfmt")?;
    checks.run_all([checks.project.cargo("fmt").args(["--all", "--check"])])?;
    Ok(String::new())
}

pub(super) fn clippy(checks: &Checks<'_>) -> Result<String> {
    needs(checks.project, "clippy", "clippy")?;
    let sets = checks.project.feature_sets()?;
    let ordinary = sets.into_iter().map(|features| strict_lint(checks.project.cargo_all("clippy", features)));
    let count = checks.run_all(ordinary.chain([lint(checks.project)]))?;
    Ok(format!("{count} sets of features"))
}

/// Clippy over every package with every feature.
pub(super) fn lint(project: &Project) -> Cmd<'_> {
    strict_lint(project.cargo_everything("clippy"))
}

/// One list of lints for every caller: cargo checks again whatever it checked with another list.
fn strict_lint(clippy: Cmd<'_>) -> Cmd<'_> {
    clippy.args(["--all-targets", "--", "-D", "warnings", "-D", "clippy::incompatible_msrv"])
}

/// Fails with the cure when a part of the Rust toolchain is not there.
pub(super) fn needs(project: &Project, subcommand: &str, component: &str) -> Result<()> {
    match project.cargo(subcommand).arg("--version").quiet().ignore_stdout().ignore_stderr().run() {
        Ok(()) => Ok(()),
        Err(_) => bail!("{component}: not installed; `rustup component add {component}` adds it"),
    }
}

/// Private items first, for their links; then each library the way docs.rs builds it, which is
/// what stays in the target folder to be read.
pub(super) fn doc(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let inside = project.cargo_everything("doc").arg("--document-private-items");
    let libraries = project.workspace.published().filter(|package| package.is_library());
    let outside =
        libraries.map(|package| project.cargo("doc").args(["-p", &package.name]).args(docs_rs_args(package)));
    checks.run_all([inside].into_iter().chain(outside).map(strict_doc))?;
    Ok(String::new())
}

fn strict_doc(doc: Cmd<'_>) -> Cmd<'_> {
    doc.arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings")
}

/// The features docs.rs builds a package with: those `[package.metadata.docs.rs]` asks for.
fn docs_rs_args(package: &Package) -> Vec<String> {
    let settings = &package.metadata["docs"]["rs"];
    let flag = |key: &str| (settings[key] == Value::Bool(true)).then(|| format!("--{key}"));
    let features = strings(&settings["features"]);
    let features = (!features.is_empty()).then(|| format!("--features={}", features.join(",")));
    flag("all-features").into_iter().chain(flag("no-default-features")).chain(features).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn args(metadata: &Value) -> Vec<String> {
        let package = json!({ "name": "toma", "manifest_path": "Cargo.toml", "metadata": metadata });
        docs_rs_args(&Package::parse(&package).unwrap())
    }

    #[test]
    fn docs_rs_settings_become_options() {
        assert_eq!(args(&json!({ "docs": { "rs": { "all-features": true } } })), ["--all-features"]);
        let chosen = json!({ "docs": { "rs": { "no-default-features": true, "features": ["a", "b"] } } });
        assert_eq!(args(&chosen), ["--no-default-features", "--features=a,b"]);
        assert_eq!(args(&json!({ "docs": { "rs": { "all-features": false } } })), [""; 0]);
        assert_eq!(args(&Value::Null), [""; 0]);
    }
}
