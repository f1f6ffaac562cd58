//! Checks that packages have all that registries show, and compile from the files in them alone, with each other.
//!
//! # Why
//! `cargo package` verifies with the profile and the features of each package, and so builds every dependency again.
//! Here all packages are unpacked into one workspace, which shares the dependencies that other steps have checked.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use super::{Checks, all_clear, counted, layout};
use crate::metadata::Package;
use crate::project::{Features, Project};

/// Entries of a manifest that registries show.
const SHOWN: [&str; 6] = ["categories", "description", "keywords", "license", "readme", "rust_version"];

/// Maximum number of lines of a README.
const README_LINES: usize = 30;

/// Builds with libtorch, so that the shim is compiled, too: each of its files must be in the package.
pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let (project, environment) = (checks.project, checks.provision.libtorch()?);
    let problems = project.workspace.published().map(|package| problems(project, package));
    all_clear(&problems.collect::<Result<Vec<_>>>()?.concat())?;
    let folder = unpack(project)?;
    let build =
        project.cargo("build").arg("--manifest-path").arg(folder.join("Cargo.toml")).arg("--workspace");
    let build = build.args(Features::All.args(&project.workspace.packages.iter().collect::<Vec<_>>()));
    // Not `doc-only`, which leaves the shim out.
    let build = build.arg("--features=tch");
    environment.give(build.env("CARGO_TARGET_DIR", &project.workspace.target_dir)).run()?;
    let count = counted(project.workspace.published().count(), "package");
    // Waits for the address of a repository.
    let lacks_address = project.workspace.published().any(|package| lacks(package, "repository"));
    Ok(if lacks_address { count + "; missing: `repository`" } else { count })
}

fn lacks(package: &Package, entry: &str) -> bool {
    package.entries.get(entry).is_none_or(|value| value.is_null() || *value == json!([]))
}

/// Entries that a package lacks, and flaws of its README.
fn problems(project: &Project, package: &Package) -> Result<Vec<String>> {
    let missing = SHOWN.into_iter().filter(|entry| lacks(package, entry));
    let docs = (!package.metadata.docs.contains_key("rs")).then_some("metadata.docs.rs");
    let mut problems: Vec<_> =
        missing.chain(docs).map(|entry| format!("{}: no `{entry}`", package.name)).collect();
    if let Some(readme) = package.entries.get("readme").and_then(|name| name.as_str()) {
        let text = project.shell.read_file(package.manifest.with_file_name(readme))?;
        let (path, lines) = (format!("{}/{readme}", package.name), text.lines().count());
        let is_long = lines > README_LINES;
        problems.extend(is_long.then(|| format!("{path}: {lines} lines, at most {README_LINES}")));
        problems.extend(layout::links_to_files(&path, text));
    }
    Ok(problems)
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
    use serde_json::Value;

    use super::*;
    use crate::metadata::Workspace;
    use crate::tests::{Scratch, metadata, package};

    #[test]
    fn a_package_has_what_registries_show_and_its_readme_leads_to_no_file() {
        let (project, scratch) = (Project::find().unwrap(), Scratch::new("readme"));
        let problems_with = |more: Value, readme: &str| {
            scratch.file("README.md", readme);
            let mut entries = json!({
                "manifest_path": scratch.path("Cargo.toml"), "metadata": { "docs": { "rs": {} } }, "readme": "README.md",
                "categories": ["a"], "description": "b", "keywords": ["c"], "license": "d", "rust_version": "1.88",
            });
            entries.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let package = metadata(&[package("core", entries)]).unwrap().packages.remove(0);
            problems(&project, &package).unwrap()
        };
        assert_eq!(problems_with(json!({}), "# A\n[a](https://x.org/b.md) [c](#a)\n"), [""; 0]);
        let missing = json!({ "keywords": [], "license": null, "metadata": null, "readme": null });
        let named = ["keywords", "license", "readme", "metadata.docs.rs"];
        assert_eq!(problems_with(missing, ""), named.map(|entry| format!("core: no `{entry}`")));
        let link = "core/README.md:1: link to `../a.md`, which is not there";
        assert_eq!(problems_with(json!({}), "[a](../a.md)"), [link]);
        assert_eq!(problems_with(json!({}), &"a\n".repeat(31)), ["core/README.md: 31 lines, at most 30"]);
    }

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
