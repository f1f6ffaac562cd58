//! The Rust version we state, checked as far as one toolchain can: against the versions our
//! dependencies state here, and by the step `clippy`, which knows when each standard item came.

use std::collections::{HashMap, HashSet};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Checks, all_clear};
use crate::metadata::{RustVersion, list, strings, text};

pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let answer = project.cargo("metadata").args(["--format-version=1", "--all-features"]).read()?;
    let answer = serde_json::from_str(&answer).context("cargo metadata")?;
    let published: Vec<_> = project.workspace.published().map(|package| package.name.as_str()).collect();
    let stated = stated_version(&answer, &published)?;
    let (count, problems) = too_new(&answer, &published, stated)?;
    all_clear(&problems)?;
    Ok(format!("{count} packages, rust {stated}"))
}

/// The oldest version any published package states.
fn stated_version(answer: &Value, published: &[&str]) -> Result<RustVersion> {
    let stated = members(answer, published).map(|package| {
        let version = package["rust_version"].as_str();
        let missing =
            || format!("package `{}`: no rust-version", package["name"].as_str().unwrap_or_default());
        RustVersion::parse(version.with_context(missing)?)
    });
    stated.collect::<Result<Vec<_>>>()?.into_iter().min().context("no published package")
}

/// How many packages the published ones are built from, and which of them need a newer Rust.
fn too_new(answer: &Value, published: &[&str], stated: RustVersion) -> Result<(usize, Vec<String>)> {
    let needed = needed(answer, published);
    let mut problems = Vec::new();
    for package in list(&answer["packages"]).iter().filter(|package| needed.contains(&id(package))) {
        let Some(version) = package["rust_version"].as_str() else { continue };
        let (name, own) = (text(package, "name")?, text(package, "version")?);
        if RustVersion::parse(version)? > stated {
            let who = format!("`cargo tree --all-features --invert {name}` shows who needs it");
            problems.push(format!("{name} {own} needs rust {version}, we state {stated}; {who}"));
        }
    }
    Ok((needed.len(), problems))
}

/// The packages the published ones need to be built, by normal and build dependencies.
fn needed<'a>(answer: &'a Value, published: &[&str]) -> HashSet<&'a str> {
    let nodes = list(&answer["resolve"]["nodes"]);
    let dependencies: HashMap<_, _> = nodes.iter().map(|node| (id(node), list(&node["deps"]))).collect();
    let mut open: Vec<_> = members(answer, published).map(id).collect();
    let mut needed = HashSet::new();
    while let Some(package) = open.pop() {
        if needed.insert(package) {
            let edges = dependencies.get(package).copied().unwrap_or_default();
            open.extend(edges.iter().filter(|edge| builds(edge)).filter_map(|edge| edge["pkg"].as_str()));
        }
    }
    needed
}

fn members<'a>(answer: &'a Value, names: &[&str]) -> impl Iterator<Item = &'a Value> {
    let ids: HashSet<_> = strings(&answer["workspace_members"]).into_iter().collect();
    let is_ours = move |package: &&Value| {
        ids.contains(id(package)) && names.iter().any(|name| package["name"] == **name)
    };
    list(&answer["packages"]).iter().filter(is_ours)
}

/// Whether a dependency is part of the build, and not of tests alone.
fn builds(edge: &Value) -> bool {
    list(&edge["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev")
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `ours` needs `normal`, which needs `build` to be built and `dev` for its tests.
    fn answer(versions: &[(&str, Value); 4]) -> Value {
        let package = |(name, rust): &(&str, Value)| json!({ "id": name, "name": name, "version": "0.3.0", "rust_version": rust });
        let edge = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        json!({
            "workspace_members": ["ours"],
            "packages": versions.iter().map(package).collect::<Vec<_>>(),
            "resolve": { "nodes": [
                { "id": "ours", "deps": [edge("normal", Value::Null)] },
                { "id": "normal", "deps": [edge("build", json!("build")), edge("dev", json!("dev"))] },
                { "id": "build", "deps": [edge("normal", Value::Null)] },
                { "id": "dev", "deps": [] },
            ] },
        })
    }

    fn problems(normal: Value, build: Value, dev: Value) -> (usize, Vec<String>) {
        let answer = answer(&[("ours", json!("1.88")), ("normal", normal), ("build", build), ("dev", dev)]);
        let stated = stated_version(&answer, &["ours"]).unwrap();
        too_new(&answer, &["ours"], stated).unwrap()
    }

    #[test]
    fn a_newer_dependency_is_named_with_its_version() {
        let (count, found) = problems(json!("1.88.0"), json!("1.88.1"), Value::Null);
        assert_eq!(count, 3);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("build 0.3.0 needs rust 1.88.1, we state 1.88.0"), "{found:?}");
    }

    #[test]
    fn dependencies_of_tests_may_be_newer() {
        assert_eq!(problems(Value::Null, json!("1.56"), json!("1.99")), (3, vec![]));
    }

    #[test]
    fn a_package_that_states_nothing_is_an_error() {
        let none = || Value::Null;
        let answer = answer(&[("ours", none()), ("normal", none()), ("build", none()), ("dev", none())]);
        let error = stated_version(&answer, &["ours"]).unwrap_err();
        assert_eq!(error.to_string(), "package `ours`: no rust-version");
        assert!(stated_version(&answer, &["other"]).is_err());
    }
}
