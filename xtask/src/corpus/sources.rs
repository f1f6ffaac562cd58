//! Documents on this machine, in an order that does not change.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::lines::Kind;
use crate::layout::files::text_files;
use crate::metadata::list;
use crate::project::Project;

/// Every document, the nearest first; documentation in sources of other packages last.
pub(super) fn sources(project: &Project) -> Result<Vec<(PathBuf, Kind)>> {
    let mut found = ours(project)?;
    let toolchain = project.command("rustc").args(["--print", "sysroot"]).quiet().read()?;
    found.extend(documents(&Path::new(&toolchain).join("share/doc")));
    let packages = dependencies(project)?;
    let of_packages: Vec<_> = packages.iter().flat_map(|folder| documents(folder)).collect();
    let (code, texts): (Vec<_>, Vec<_>) = of_packages.into_iter().partition(|(_, kind)| *kind == Kind::Rust);
    found.extend(texts);
    found.extend(code);
    Ok(found)
}

fn ours(project: &Project) -> Result<Vec<(PathBuf, Kind)>> {
    let root = &project.workspace.root;
    let files = text_files(project)?.into_iter();
    Ok(files.filter_map(|file| with_kind(root.join(file.path))).collect())
}

/// The folders of the packages we depend on.
fn dependencies(project: &Project) -> Result<Vec<PathBuf>> {
    let answer = project.cargo("metadata").args(["--format-version=1", "--all-features"]).quiet();
    let answer: Value = serde_json::from_str(&answer.read()?).context("cargo metadata")?;
    Ok(folders(&answer))
}

/// By name and version, whatever folder they are in; those of the workspace have no source.
fn folders(answer: &Value) -> Vec<PathBuf> {
    let packages = list(&answer["packages"]).iter().filter(|package| !package["source"].is_null());
    let mut folders: Vec<_> = packages
        .filter_map(|package| Path::new(package["manifest_path"].as_str()?).parent().map(Path::to_owned))
        .collect();
    folders.sort_by_key(|folder| folder.file_name().map(ToOwned::to_owned));
    folders
}

/// The documents in a folder and those below it, by path.
fn documents(folder: &Path) -> Vec<(PathBuf, Kind)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let within = |path: PathBuf| match path.is_dir() {
        // The toolchain's manual, in a hundred thousand files.
        true if path.ends_with("html") => Vec::new(),
        true => documents(&path),
        false => with_kind(path).into_iter().collect(),
    };
    paths.into_iter().flat_map(within).collect()
}

fn with_kind(path: PathBuf) -> Option<(PathBuf, Kind)> {
    let kind = Kind::of_name(path.file_name()?.to_str()?)?;
    Some((path, kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use serde_json::json;

    #[test]
    fn documents_come_by_path_and_without_html() {
        let scratch = Scratch::new("documents");
        for path in ["b/LICENSE", "a/README.md", "a/html/book.md", "a/x.html", "a/src/lib.rs", "Cargo.toml"] {
            scratch.file(path, "");
        }
        let found = documents(scratch.root());
        let paths: Vec<_> =
            found.iter().map(|(path, _)| path.strip_prefix(scratch.root()).unwrap()).collect();
        assert_eq!(paths, ["a/README.md", "a/src/lib.rs", "b/LICENSE"].map(Path::new));
        assert!(documents(&scratch.path("nowhere")).is_empty());
    }

    #[test]
    fn dependencies_come_by_name_wherever_they_are() {
        let package = |path: &str, source: Value| json!({ "manifest_path": path, "source": source });
        let answer = json!({ "packages": [
            package("/z/anyhow-1.0.0/Cargo.toml", json!("registry")),
            package("/a/syn-3.0.0/Cargo.toml", json!("registry")),
            package("/w/toma/Cargo.toml", Value::Null),
        ] });
        assert_eq!(folders(&answer), ["/z/anyhow-1.0.0", "/a/syn-3.0.0"].map(PathBuf::from));
    }
}
