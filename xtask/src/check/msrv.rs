//! The Rust version we state, against the versions that our dependencies state. The step `clippy` knows when each
//! standard item came.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};

use super::{Checks, all_clear};
use crate::metadata::{Metadata, Package};

pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let published: Vec<_> = project.workspace.published().collect();
    // What they are built from; tests may need a newer Rust.
    let tree = project.cargo("tree").args(["--edges", "normal,build", "--target", "all", "--all-features"]);
    let tree = tree.args(["--prefix", "none", "--format", "{p}"]);
    let tree =
        published.iter().fold(tree, |tree, package| tree.args(["-p", &package.name])).quiet().read()?;
    let (count, problems) = too_new(&tree, &project.metadata()?, &published)?;
    all_clear(&problems)?;
    Ok(format!("{count} packages"))
}

/// How many packages the tree holds, and which of them need a newer Rust than the oldest that a published one states.
fn too_new(tree: &str, metadata: &Metadata, published: &[&Package]) -> Result<(usize, Vec<String>)> {
    let stated = published.iter().map(|package| {
        let stated = package.rust_version.as_deref();
        version_of(stated.with_context(|| format!("package `{}`: no rust-version", package.name))?)
    });
    let ours = stated.collect::<Result<Vec<_>>>()?.into_iter().min().context("no published package")?;
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let needed: BTreeSet<String> = tree.lines().filter(|line| !line.is_empty()).map(name).collect();
    let mut problems = Vec::new();
    for Package { name, version, rust_version, .. } in &metadata.packages {
        let package = format!("{name} v{version}");
        let Some(stated) = rust_version.as_ref().filter(|_| needed.contains(&package)) else { continue };
        if version_of(stated).with_context(|| package.clone())? > ours {
            let [major, minor, patch] = ours;
            problems.push(format!(
                "{package} needs rust {stated}, we state {major}.{minor}.{patch}; \
                 `cargo tree --all-features --invert {name}` shows what needs it"
            ));
        }
    }
    Ok((needed.len(), problems))
}

/// Reads `1.88` or `1.88.0`; a pre-release counts as its release.
fn version_of(text: &str) -> Result<[u32; 3]> {
    let mut parts = [0; 3];
    for (at, word) in text.split('-').next().unwrap_or_default().split('.').enumerate() {
        let part = parts.get_mut(at).with_context(|| format!("rust-version `{text}`: too many parts"))?;
        *part = word.parse().with_context(|| format!("rust-version `{text}`: `{word}` is no number"))?;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{metadata, package};
    use serde_json::json;

    const TREE: &str = "ours v0.1.0 (/w)\n\nbuild v0.3.0\nmacros v1.0.0 (proc-macro)\nbuild v0.3.0 (*)\n";

    fn problems(ours: Option<&str>, build: &str) -> Result<(usize, Vec<String>)> {
        let of = |name: &str, version: &str, rust: Option<&str>| {
            package(name, json!({ "version": version, "rust_version": rust }))
        };
        let packages = [
            of("ours", "0.1.0", ours),
            of("build", "0.3.0", Some(build)),
            of("build", "0.3.01", Some("1.99")),
            of("macros", "1.0.0", None),
        ];
        let metadata = metadata(&packages).unwrap();
        too_new(TREE, &metadata, &[&metadata.packages[0]])
    }

    #[test]
    fn a_newer_dependency_is_named_with_its_version() {
        let (count, found) = problems(Some("1.88"), "1.88.1").unwrap();
        assert_eq!((count, found.len()), (3, 1));
        assert!(found[0].starts_with("build v0.3.0 needs rust 1.88.1, we state 1.88.0"), "{found:?}");
    }

    #[test]
    fn what_is_older_and_what_is_not_in_the_tree_is_no_problem() {
        assert_eq!(problems(Some("1.100"), "1.88.1").unwrap(), (3, vec![]));
    }

    #[test]
    fn versions_that_are_missing_or_no_numbers_are_named() {
        let error = problems(None, "1.88").unwrap_err().to_string();
        assert_eq!(error, "package `ours`: no rust-version");
        for wrong in ["", "1.x", "1.2.3.4", "stable"] {
            let error = version_of(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("`{wrong}`")), "{error}");
        }
    }
}
