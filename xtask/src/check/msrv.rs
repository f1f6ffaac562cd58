//! The Rust version we state, against the versions that our dependencies state. The step `clippy` knows when each
//! standard item came.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Checks, all_clear};
use crate::metadata::{list, text};

pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let answer = project.cargo("metadata").args(["--format-version=1", "--all-features"]).read()?;
    let stated = stated(&serde_json::from_str(&answer).context("cargo metadata")?)?;
    let published: Vec<_> = project.workspace.published().map(|package| &*package.name).collect();
    // What they are built from; tests may need a newer Rust.
    let tree = project.cargo("tree").args(["--edges", "normal,build", "--target", "all", "--all-features"]);
    let tree = tree.args(["--prefix", "none", "--format", "{p}"]);
    let tree = published.iter().fold(tree, |tree, name| tree.args(["-p", name])).quiet().read()?;
    let (count, problems) = too_new(&tree, &stated, &published)?;
    all_clear(&problems)?;
    Ok(format!("{count} packages"))
}

/// What each package states, by name and version as `cargo tree` prints them.
fn stated(answer: &Value) -> Result<BTreeMap<String, Option<String>>> {
    let package = |package: &Value| {
        let version = package["rust_version"].as_str().map(str::to_owned);
        Ok((format!("{} v{}", text(package, "name")?, text(package, "version")?), version))
    };
    list(&answer["packages"]).iter().map(package).collect()
}

/// How many packages the tree holds, and which of them need a newer Rust than the oldest that a published one states.
fn too_new(
    tree: &str,
    stated: &BTreeMap<String, Option<String>>,
    published: &[&str],
) -> Result<(usize, Vec<String>)> {
    let names: Vec<_> =
        tree.lines().map(|line| line.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let needed = stated.iter().filter(|(package, _)| names.contains(package));
    let (mut ours, mut theirs, mut count) = (None, Vec::new(), 0);
    for (package, version) in needed {
        count += 1;
        let parsed = version.as_deref().map(version_of).transpose().with_context(|| package.clone())?;
        if published.contains(&package.split(' ').next().unwrap_or_default()) {
            let parsed = parsed.with_context(|| format!("package `{package}`: no rust-version"))?;
            ours = Some(ours.map_or(parsed, |oldest| parsed.min(oldest)));
        } else {
            theirs.extend(parsed.map(|parsed| (package, parsed)));
        }
    }
    let ours = ours.context("no published package")?;
    let newer = theirs.into_iter().filter(|(_, parsed)| *parsed > ours);
    let [major, minor, patch] = ours;
    let problem = |(package, [a, b, c]): (&String, [u32; 3])| {
        let (name, _) = package.split_once(' ').unwrap_or((package, ""));
        format!(
            "{package} needs rust {a}.{b}.{c}, we state {major}.{minor}.{patch}; \
             `cargo tree --all-features --invert {name}` shows what needs it"
        )
    };
    Ok((count, newer.map(problem).collect()))
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
    use serde_json::json;

    const TREE: &str = "ours v0.1.0 (/w)\nbuild v0.3.0\nmacros v1.0.0 (proc-macro)\nbuild v0.3.0 (*)\n";

    fn problems(ours: &Value, build: &str) -> Result<(usize, Vec<String>)> {
        let package = |name: &str, version: &str, rust: &Value| json!({ "name": name, "version": version, "rust_version": rust });
        let answer = json!({ "packages": [
            package("ours", "0.1.0", ours),
            package("build", "0.3.0", &json!(build)),
            package("build", "0.4.0", &json!("1.99")),
            package("macros", "1.0.0", &Value::Null),
        ] });
        too_new(TREE, &stated(&answer).unwrap(), &["ours"])
    }

    #[test]
    fn a_newer_dependency_is_named_with_its_version() {
        let (count, found) = problems(&json!("1.88"), "1.88.1").unwrap();
        assert_eq!((count, found.len()), (3, 1));
        assert!(found[0].starts_with("build v0.3.0 needs rust 1.88.1, we state 1.88.0"), "{found:?}");
    }

    #[test]
    fn what_is_older_and_what_is_not_in_the_tree_is_no_problem() {
        assert_eq!(problems(&json!("1.100"), "1.88.1").unwrap(), (3, vec![]));
    }

    #[test]
    fn versions_that_are_missing_or_no_numbers_are_named() {
        let error = problems(&Value::Null, "1.88").unwrap_err().to_string();
        assert_eq!(error, "package `ours v0.1.0`: no rust-version");
        for wrong in ["", "1.x", "1.2.3.4", "stable"] {
            let error = version_of(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("`{wrong}`")), "{error}");
        }
    }
}
