//! What users can name, against its snapshot.
//!
//! # Why
//! rustdoc writes JSON for compilers with unstable options only, and `RUSTC_BOOTSTRAP` makes a stable one such. In
//! cargo's own environment the variable would run the build scripts of our dependencies again, and so build them
//! again. So cargo is told to call this program in place of rustdoc, which sets it for rustdoc alone.

mod paths;
mod snapshot;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use rustdoc_types::FORMAT_VERSION;
use serde::Deserialize;

use super::steps::counted;
use super::{Checks, all_clear};
use crate::handover;
use crate::metadata::Package;
use crate::project::Project;
use paths::Crates;
use snapshot::Snapshot;

/// Where this program is called in place of rustdoc: the rustdoc that it runs.
const RUSTDOC: &str = "XTASK_RUSTDOC";

/// Where the snapshots stand, one file for each published package.
const SNAPSHOTS: &str = "tests/surface";

/// Runs rustdoc with unstable options, if that is what this program was called for.
pub(crate) fn in_place_of_rustdoc() -> Option<Result<ExitCode>> {
    let rustdoc = env::var_os(RUSTDOC)?;
    let status = Command::new(&rustdoc).args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    let status = status.with_context(|| format!("cannot run `{}`", rustdoc.display()));
    Some(
        status.map(|status| if status.success() { ExitCode::SUCCESS } else { handover::code(status).into() }),
    )
}

pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    document(project)?;
    let published: Vec<_> = project.workspace.published().collect();
    let facade = published[0];
    if let Some(why) = unreadable(&json_of(project, facade))? {
        return Ok(why);
    }
    let names = Crates::read(published.iter().map(|package| json_of(project, package)))?;
    let names = names.reached_from(&crate_name(facade))?;
    let mut snapshots = vec![snapshot(facade, names.lines())];
    for package in published.iter().skip(1) {
        snapshots.push(snapshot(package, items(&json_of(project, package))?));
    }
    let mut problems = names.with_several_paths();
    problems.extend(snapshots.iter().map(|of| of.settle(project, checks.bless)).collect::<Result<Vec<_>>>()?);
    problems.retain(|problem| !problem.is_empty());
    all_clear(&problems)?;
    Ok(format!("{}, each with one path", counted(names.count(), "name")))
}

/// Lets rustdoc write what is public, as JSON beside the documentation.
fn document(project: &Project) -> Result<()> {
    let cargo = project.cargo_everything("doc").arg("--no-deps");
    let rustdoc = env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let cargo = cargo.env(RUSTDOC, rustdoc).env("RUSTDOC", env::current_exe()?);
    Ok(cargo.env("RUSTDOCFLAGS", "-Z unstable-options --output-format json").run()?)
}

fn json_of(project: &Project, package: &Package) -> PathBuf {
    project.workspace.target_dir.join("doc").join(crate_name(package)).with_extension("json")
}

fn crate_name(package: &Package) -> String {
    package.name.replace('-', "_")
}

/// Why nothing is compared, where rustdoc writes another format than is read.
fn unreadable(json: &Path) -> Result<Option<String>> {
    #[derive(Deserialize)]
    struct Format {
        format_version: u32,
    }
    let text = std::fs::read_to_string(json).with_context(|| json.display().to_string())?;
    let format: Format = serde_json::from_str(&text).with_context(|| json.display().to_string())?;
    let written = format.format_version;
    let why = || format!("not compared: rustdoc writes format {written}, read is {FORMAT_VERSION}");
    Ok((written != FORMAT_VERSION).then(why))
}

/// Every public item of a crate with its signature. Derived implementations follow from none of our names.
fn items(json: &Path) -> Result<Vec<String>> {
    let api =
        public_api::Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    let api = api.omit_auto_derived_impls(true).build().with_context(|| json.display().to_string())?;
    Ok(api.items().map(ToString::to_string).collect())
}

fn snapshot(package: &Package, lines: Vec<String>) -> Snapshot {
    Snapshot::new(Path::new(SNAPSHOTS).join(&package.name).with_extension("txt"), lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn another_format_is_named_beside_ours_and_ours_is_read() {
        let scratch = Scratch::new("surface");
        let told = |text: &str| {
            scratch.file("a.json", text);
            unreadable(&scratch.path("a.json"))
        };
        assert_eq!(told(&format!("{{\"format_version\":{FORMAT_VERSION}}}")).unwrap(), None);
        let why = format!("not compared: rustdoc writes format 9999, read is {FORMAT_VERSION}");
        assert_eq!(told("{\"root\":0,\"format_version\":9999}").unwrap(), Some(why));
        assert!(format!("{:#}", told("{}").unwrap_err()).contains("missing field `format_version`"));
    }
}
