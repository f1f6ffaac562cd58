//! Fixture programs: small crates that must end well in every profile they list.
//!
//! Each is a workspace of its own under `tests/fixtures`, because cargo reads profiles at the root of
//! a workspace only.

use std::collections::HashSet;
use std::iter::once;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;
use xshell::Cmd;

use crate::metadata::{Package, list};
use crate::project::Project;
use crate::steps::counted;
use crate::test::{Checks, all_clear};

/// Where the fixtures are, from the root of the workspace.
const FOLDER: &str = "tests/fixtures";

pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let fixtures = fixtures(&checks.project.workspace.root.join(FOLDER))?;
    let (mut runs, mut failures) = (0, Vec::new());
    for fixture in &fixtures {
        match run(checks, fixture) {
            Ok(count) => runs += count,
            Err(error) => failures.push(format!("{error:#}")),
        }
        if checks.fail_fast && !failures.is_empty() {
            break;
        }
    }
    all_clear(&failures)?;
    Ok(if fixtures.is_empty() { "no fixtures".to_owned() } else { counted(runs, "run") })
}

/// The names of the folders that hold a crate.
fn fixtures(folder: &Path) -> Result<Vec<String>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = folder.read_dir().with_context(|| folder.display().to_string())?;
    let entries = entries.filter_map(Result::ok).filter(|entry| entry.path().join("Cargo.toml").is_file());
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn run(checks: &Checks<'_>, fixture: &str) -> Result<usize> {
    let manifest = format!("{FOLDER}/{fixture}/Cargo.toml");
    let profiles = profiles(checks.project, &manifest)?;
    let (shell, own) = (&checks.project.shell, format!("{FOLDER}/{fixture}/Cargo.lock"));
    let locked = if shell.path_exists(&own) { shell.read_file(&own)? } else { String::new() };
    shell.write_file(&own, merged(&shell.read_file("Cargo.lock")?, &locked))?;
    checks.run_all(profiles.iter().map(|profile| run_profile(checks.project, &manifest, profile)))
}

/// The versions of the workspace, so that the builds are shared, and those that a fixture has locked of
/// packages that nobody else needs, so that nothing newer is fetched. Cargo leaves out the rest.
fn merged(workspace: &str, own: &str) -> String {
    let known: HashSet<_> = locked(workspace).map(name).collect();
    let added = locked(own).filter(|package| !known.contains(name(package)));
    once(workspace.trim_end()).chain(added).collect::<Vec<_>>().join("\n\n[[package]]\n") + "\n"
}

/// The packages of a lock file, without their heading.
fn locked(lock: &str) -> impl Iterator<Item = &str> {
    lock.split("[[package]]").skip(1).map(str::trim)
}

/// The line that names a package.
fn name(package: &str) -> &str {
    package.lines().next().unwrap_or_default()
}

/// The profiles a fixture lists; none listed is a mistake, since nothing else ever runs it.
fn profiles(project: &Project, manifest: &str) -> Result<Vec<String>> {
    let answer =
        project.cargo("metadata").args(["--format-version=1", "--no-deps", "--manifest-path", manifest]);
    let answer: Value = serde_json::from_str(&answer.quiet().read()?)?;
    let package = Package::parse(list(&answer["packages"]).first().unwrap_or(&Value::Null));
    let profiles = package.with_context(|| manifest.to_owned())?.listed("profiles");
    profiles
        .filter(|profiles| !profiles.is_empty())
        .with_context(|| format!("{manifest}: no profiles under [package.metadata.toma]"))
}

/// Builds in the target folder of the workspace, so that no fixture leaves one in the sources.
fn run_profile<'a>(project: &'a Project, manifest: &str, profile: &str) -> Cmd<'a> {
    let cargo = project.cargo("run").args(["--manifest-path", manifest, "--profile", profile]);
    cargo.arg("--target-dir").arg(&project.workspace.target_dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_of_the_workspace_win_and_those_of_a_fixture_alone_stay() {
        let package =
            |name: &str, version: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n");
        let head = "version = 4\n\n";
        let workspace = [head, &package("libc", "2"), "\n", &package("toma", "1")].concat();
        assert_eq!(merged(&workspace, ""), workspace);
        let own = [head, &package("libc", "1"), "\n", &package("loom", "7")].concat();
        assert_eq!(merged(&workspace, &own), [&workspace, "\n", &*package("loom", "7")].concat());
    }
}
