//! What is published: packages that say what they are, and that are built from the files in them alone.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;
use xshell::Cmd;

use super::steps::counted;
use super::{Checks, all_clear};
use crate::metadata::Package;
use crate::project::Project;

/// Files that every package holds.
const FILES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// What cargo says of the packages that were unpacked.
#[derive(Debug, Deserialize)]
struct Unpacked {
    packages: Vec<Manifest>,
}

/// What a registry shows of a package.
#[derive(Debug, Deserialize)]
struct Manifest {
    name: String,
    #[serde(rename = "manifest_path")]
    path: PathBuf,
    description: Option<String>,
    license: Option<String>,
    readme: Option<String>,
    repository: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    metadata: Value,
}

/// Checks that the packages compile with each other where none of our other files are.
pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let folder = prepare(project)?;
    let metadata = in_folder(project, "metadata", &folder).args(["--no-deps", "--format-version=1"]);
    let unpacked: Unpacked = serde_json::from_str(&metadata.quiet().read()?)?;
    let problems: Vec<_> = unpacked.packages.iter().filter_map(Manifest::lacks).collect();
    all_clear(&problems)?;
    in_folder(project, "check", &folder).args(["--workspace", "--lib", "--all-features"]).run()?;
    Ok(unpacked.note())
}

/// The same with libtorch, where the shim is compiled, too: each of its files must have been packed.
pub(super) fn nightly(checks: &Checks<'_>) -> Result<String> {
    let (project, environment) = (checks.project, checks.provision.libtorch()?);
    let folder = prepare(project)?;
    let builds = project.workspace.with_libtorch.iter().map(|package| {
        let cargo = in_folder(project, "build", &folder).args(["-p", &package.name]);
        environment.give(cargo)
    });
    checks.pass(builds)
}

/// Packs, and unpacks into a workspace of its own.
fn prepare(project: &Project) -> Result<PathBuf> {
    let published: Vec<_> = project.workspace.published().collect();
    let folder = project.workspace.target_dir.join("xtask/package");
    // Downloads what is missing, so that packing need not ask the registry what is new.
    project.metadata()?;
    pack(project, &published)?;
    unpack(project, &published, &folder)?;
    let shell = &project.shell;
    shell.write_file(folder.join("Cargo.toml"), manifest(&published, &shell.read_file("Cargo.toml")?))?;
    shell.copy_file("Cargo.lock", &folder)?;
    Ok(folder)
}

impl Unpacked {
    /// A repository has to be stated before the first release, and nothing fails without one until then.
    fn note(&self) -> String {
        let count = counted(self.packages.len(), "package");
        match self.packages.iter().filter(|package| package.repository.is_none()).count() {
            0 => count,
            without => format!("{count}, {without} without a repository"),
        }
    }
}

impl Manifest {
    /// What the package does not say of itself, and the files that it does not hold.
    fn lacks(&self) -> Option<String> {
        let entries = [
            ("description", self.description.is_some()),
            ("license", self.license.is_some()),
            ("readme", self.readme.is_some()),
            ("keywords", !self.keywords.is_empty()),
            ("categories", !self.categories.is_empty()),
            ("metadata.docs.rs", self.metadata.pointer("/docs/rs").is_some()),
        ];
        let files = FILES.map(|file| (file, self.path.with_file_name(file).exists()));
        let lacking = entries.into_iter().chain(files).filter(|(_, is_there)| !is_there);
        let lacking: Vec<_> = lacking.map(|(name, _)| format!("`{name}`")).collect();
        (!lacking.is_empty()).then(|| format!("package `{}` lacks {}", self.name, lacking.join(", ")))
    }
}

/// Without cargo's own verification, which builds every dependency again, and without features.
fn pack(project: &Project, packages: &[&Package]) -> Result<()> {
    let cargo = project.cargo("package").args(["--no-verify", "--allow-dirty", "--offline", "--quiet"]);
    Ok(packages.iter().fold(cargo, |cargo, package| cargo.arg("-p").arg(&package.name)).run()?)
}

/// With the time of now: that in a package is always the same, and cargo would take changed files for old ones.
fn unpack(project: &Project, packages: &[&Package], folder: &Path) -> Result<()> {
    project.shell.remove_path(folder)?;
    project.shell.create_dir(folder)?;
    for package in packages {
        let file = format!("package/{}.crate", stem(package));
        let file = project.workspace.target_dir.join(file);
        project.command("tar").arg("-xmzf").arg(file).arg("-C").arg(folder).quiet().run()?;
    }
    Ok(())
}

fn stem(package: &Package) -> String {
    format!("{}-{}", package.name, package.version)
}

fn in_folder<'a>(project: &'a Project, subcommand: &str, folder: &Path) -> Cmd<'a> {
    let cargo = project.cargo(subcommand).arg("--manifest-path").arg(folder.join("Cargo.toml"));
    // Their dependencies are those of the other steps, and have been checked.
    cargo.env("CARGO_TARGET_DIR", &project.workspace.target_dir)
}

/// A workspace of the packages, in which each stands for the one of that name in the registry. It has the profiles
/// of ours, so that dependencies need not be checked again.
fn manifest(packages: &[&Package], ours: &str) -> String {
    let mut text = "[workspace]\nmembers = [\"*\"]\nresolver = \"3\"\n\n[patch.crates-io]\n".to_owned();
    for package in packages {
        writeln!(text, "{} = {{ path = \"{}\" }}", package.name, stem(package)).expect("a string takes all");
    }
    text + &profiles(ours)
}

/// The tables of a manifest that are about profiles.
fn profiles(manifest: &str) -> String {
    let mut is_profile = false;
    let lines = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_profile = line.starts_with("[profile.");
        }
        is_profile
    });
    lines.fold(String::new(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metadata::Workspace;
    use crate::tests::{Scratch, metadata, package};

    fn told(scratch: &Scratch, description: Option<&str>, metadata: &Value) -> Manifest {
        let manifest = json!({
            "name": "toma", "manifest_path": scratch.path("Cargo.toml"), "description": description,
            "license": "MIT", "readme": "README.md", "repository": null, "keywords": ["a"], "categories": ["b"],
            "metadata": metadata,
        });
        serde_json::from_value(manifest).unwrap()
    }

    #[test]
    fn entries_and_files_that_are_missing_are_named() {
        let scratch = Scratch::new("package");
        let whole = json!({ "docs": { "rs": { "all-features": true } } });
        for file in FILES {
            scratch.file(file, "");
        }
        assert_eq!(told(&scratch, Some("it"), &whole).lacks(), None);
        std::fs::remove_file(scratch.path("LICENSE-MIT")).unwrap();
        let lacks = told(&scratch, None, &Value::Null).lacks().unwrap();
        assert_eq!(lacks, "package `toma` lacks `description`, `metadata.docs.rs`, `LICENSE-MIT`");
    }

    #[test]
    fn packages_without_a_repository_are_counted() {
        let scratch = Scratch::new("package");
        let mut unpacked = Unpacked { packages: vec![told(&scratch, None, &Value::Null)] };
        assert_eq!(unpacked.note(), "1 package, 1 without a repository");
        unpacked.packages[0].repository = Some("somewhere".to_owned());
        assert_eq!(unpacked.note(), "1 package");
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
