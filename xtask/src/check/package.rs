//! Checks that packages compile from the files in them alone, with each other.
//!
//! # Why
//! `cargo package` verifies a package against packages of the same version that an earlier run has packed. Here all
//! packages are unpacked into one workspace, which shares the dependencies that other steps have built.

use std::path::PathBuf;

use anyhow::Result;

use super::{Checks, counted};
use crate::metadata::Package;
use crate::project::{Features, Project};

/// Builds with libtorch, so that the shim is compiled, too: each of its files must be in the package.
pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let (project, environment) = (checks.project, checks.provision.libtorch()?);
    let folder = unpack(project)?;
    let build =
        project.cargo("build").arg("--manifest-path").arg(folder.join("Cargo.toml")).arg("--workspace");
    let build = build.args(Features::All.args(&project.workspace.packages.iter().collect::<Vec<_>>()));
    // Not `doc-only`, which leaves the shim out.
    let build = build.arg("--features=tch");
    environment.give(build.env("CARGO_TARGET_DIR", &project.workspace.target_dir)).run()?;
    Ok(counted(project.workspace.published().count(), "package"))
}

/// Packs all packages, and unpacks them into a workspace of their own.
fn unpack(project: &Project) -> Result<PathBuf> {
    let (shell, target) = (&project.shell, &project.workspace.target_dir);
    let folder = target.join("xtask/package");
    shell.remove_path(&folder)?;
    shell.create_dir(&folder)?;
    // Downloads missing dependencies, so that packing need not query the registry.
    project.cargo("metadata").args(["--format-version=1", "--all-features"]).quiet().ignore_stdout().run()?;
    let published: Vec<_> = project.workspace.published().collect();
    let cargo = project.cargo("package").args(["--no-verify", "--allow-dirty", "--offline", "--quiet"]);
    published.iter().fold(cargo, |cargo, package| cargo.arg("-p").arg(&package.name)).run()?;
    for package in &published {
        let file = target.join("package").join(stem(package) + ".crate");
        // With the current time: the one in a package is constant, and cargo would regard changed files as unchanged.
        project.command("tar").arg("-xmzf").arg(file).arg("-C").arg(&folder).quiet().run()?;
    }
    shell.write_file(folder.join("Cargo.toml"), manifest(&published, &shell.read_file("Cargo.toml")?))?;
    shell.copy_file("Cargo.lock", &folder)?;
    Ok(folder)
}

fn stem(package: &Package) -> String {
    format!("{}-{}", package.name, package.version)
}

/// The manifest of a workspace in which each package replaces the one of its name in the registry. It has the profiles
/// of this workspace, so that dependencies need not be checked again.
fn manifest(packages: &[&Package], ours: &str) -> String {
    let patches =
        packages.iter().map(|package| format!("{} = {{ path = \"{}\" }}\n", package.name, stem(package)));
    let mut is_profile = false;
    let profiles = ours.lines().filter(|line| {
        if line.starts_with('[') {
            is_profile = line.starts_with("[profile.");
        }
        is_profile
    });
    let head = "[workspace]\nmembers = [\"*\"]\nresolver = \"3\"\n\n[patch.crates-io]\n".to_owned();
    [head].into_iter().chain(patches).chain(profiles.map(|line| format!("{line}\n"))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metadata::Workspace;
    use crate::tests::{metadata, package};

    #[test]
    fn unpacked_packages_stand_for_each_other_and_keep_our_profiles() {
        let ours = "[package]\nname = \"a\"\n[profile.dev]\ndebug = 1\n\n[profile.dev.package.a]\nx = 2\n[lints]\ny = 3\n";
        let packages = metadata(&[package("core", json!({ "version": "0.1.0" }))]).unwrap();
        let workspace = Workspace::new(packages, "core");
        let text = manifest(&workspace.all_packages().collect::<Vec<_>>(), ours);
        let (_, end) = text.split_once("[patch.crates-io]\n").unwrap();
        assert_eq!(
            end,
            "core = { path = \"core-0.1.0\" }\n[profile.dev]\ndebug = 1\n\n[profile.dev.package.a]\nx = 2\n"
        );
    }
}
