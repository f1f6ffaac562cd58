//! The workspace as `cargo metadata` describes it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Deserializer};

/// The answer of `cargo metadata`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    workspace_default_members: Vec<String>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

/// The workspace: its root, and the packages that are checked.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target_dir: PathBuf,
    /// The default members and this one, root package first.
    pub(crate) packages: Vec<Package>,
    /// Programs that list the profiles in which they run.
    pub(crate) fixtures: Vec<Package>,
    /// The other members, which need libtorch.
    pub(crate) with_libtorch: Vec<Package>,
}

/// One package.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(rename = "manifest_path")]
    pub(crate) manifest: PathBuf,
    features: BTreeMap<String, Vec<String>>,
    pub(crate) targets: Vec<Target>,
    /// Registries; `publish = false` is an empty list.
    publish: Option<Vec<String>>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) metadata: Tables,
}

/// A build target of a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    #[serde(rename = "kind")]
    kinds: Vec<String>,
    #[serde(default, rename = "required-features")]
    pub(crate) required_features: Vec<String>,
}

/// `[package.metadata]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Tables {
    toma: Settings,
}

/// `[package.metadata.toma]`, which CONTRIBUTING.md explains.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    pub(crate) slow_tests: Vec<String>,
    libtorch_features: Vec<String>,
    pub(crate) profiles: Vec<String>,
    pub(crate) nightly_profiles: Vec<String>,
    pub(crate) examples: BTreeMap<String, ExampleSettings>,
    on_card: BTreeMap<String, Suite>,
}

/// A test suite that also runs on a paper card.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Suite {
    pub(crate) bytes: String,
    counted: Vec<String>,
    of_cpu: Vec<String>,
}

/// How an example is run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExampleSettings {
    pub(crate) data: Vec<Data>,
    /// Arguments in the checks.
    pub(crate) test: Vec<String>,
    /// Arguments in the demonstration, which skips examples without them.
    pub(crate) demo: Option<Vec<String>>,
    /// Purpose of the example, in one line.
    pub(crate) about: Option<String>,
}

/// Files that are too large for the repository, from a Python package.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Data {
    /// The package with its version and the checksums of its files, in pip's format.
    pub(crate) requirements: String,
    /// Folder of the files within the package.
    pub(crate) folder: PathBuf,
    /// The variable that gives the example the path of this folder on this machine.
    pub(crate) variable: String,
}

impl Workspace {
    /// `extra` is the one package that is checked without being a default member.
    pub(crate) fn new(metadata: Metadata, extra: &str) -> Self {
        let Metadata { packages, workspace_default_members: defaults, .. } = metadata;
        let (root, target_dir) = (metadata.workspace_root, metadata.target_directory);
        let mut workspace = Self { root, target_dir, ..Self::default() };
        for package in packages {
            let Settings { profiles, nightly_profiles, .. } = package.settings();
            let kind = match () {
                () if defaults.contains(&package.id) || package.name == extra => &mut workspace.packages,
                () if !profiles.is_empty() || !nightly_profiles.is_empty() => &mut workspace.fixtures,
                () => &mut workspace.with_libtorch,
            };
            kind.push(package);
        }
        workspace.packages.sort_by_key(|package| package.manifest.components().count());
        workspace
    }

    /// Every package except the fixtures, with those that need libtorch last.
    pub(crate) fn all_packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().chain(&self.with_libtorch)
    }

    /// Every target of that kind, with its package.
    pub(crate) fn targets_of(&self, kind: &'static str) -> impl Iterator<Item = (&Package, &Target)> {
        self.all_packages()
            .flat_map(move |package| package.targets_of(kind).map(move |target| (package, target)))
    }

    /// True if building the package needs a libtorch.
    pub(crate) fn needs_libtorch(&self, package: &Package) -> bool {
        self.with_libtorch.iter().any(|with| with.name == package.name)
    }

    /// The target of that kind and name, with its package.
    pub(crate) fn target(&self, kind: &'static str, name: &str) -> Result<(&Package, &Target)> {
        self.targets_of(kind).find(|(_, target)| target.name == name).with_context(|| {
            let known: Vec<_> = self.targets_of(kind).map(|(_, target)| &*target.name).collect();
            format!("unknown {kind} `{name}`; known: {}", known.join(", "))
        })
    }

    /// The package at the root of the workspace, on which users depend.
    pub(crate) fn facade(&self) -> &Package {
        &self.packages[0]
    }

    /// The suites that also run on a paper card, by name.
    pub(crate) fn on_card(&self) -> impl Iterator<Item = (&str, &Suite)> {
        let all = self.all_packages().flat_map(|package| &package.settings().on_card);
        all.map(|(name, suite)| (&**name, suite))
    }

    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.all_packages().filter(|package| package.publish.as_ref().is_none_or(|to| !to.is_empty()))
    }
}

impl Suite {
    /// Arguments of the suite's program.
    pub(crate) fn arguments<'a>(&'a self, left_out: &[&'a str]) -> Vec<&'a str> {
        let listed = self.counted.iter().chain(&self.of_cpu).map(String::as_str);
        listed.chain(left_out.iter().copied()).flat_map(|name| ["--skip", name]).collect()
    }
}

impl Package {
    pub(crate) const fn settings(&self) -> &Settings {
        &self.metadata.toma
    }

    /// Every feature except `default` and those listed as `libtorch-features`.
    pub(crate) fn features(&self) -> impl Iterator<Item = &str> {
        let left_out =
            |name: &str| name == "default" || self.settings().libtorch_features.iter().any(|of| of == name);
        self.features.keys().map(String::as_str).filter(move |name| !left_out(name))
    }

    pub(crate) fn targets_of(&self, kind: &'static str) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(move |target| target.kinds.iter().any(|of| of == kind))
    }
}

impl Target {
    /// The options with which cargo builds it.
    pub(crate) fn feature_args(&self) -> Vec<String> {
        match self.required_features.as_slice() {
            [] => Vec::new(),
            required => vec!["--features".to_owned(), required.join(",")],
        }
    }
}

/// Reads `null`, which a package without tables has, as empty tables.
fn or_default<'de, D: Deserializer<'de>>(tables: D) -> Result<Tables, D::Error> {
    Ok(Option::deserialize(tables)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tests::{metadata, package};

    fn workspace() -> Workspace {
        let of = |name: &str, more: Value| {
            let mut package = package(name, more);
            package["features"] = json!({ "default": [], "tch": [], "tracing": ["dep:tracing"] });
            package["targets"] =
                json!([{ "name": "bar", "kind": ["example"], "required-features": ["a", "b"] }]);
            package
        };
        let tables = json!({ "toma": { "slow-tests": ["twin::"], "libtorch-features": ["tch"] } });
        let facade = of("facade", json!({ "manifest_path": "/w/Cargo.toml", "metadata": tables }));
        let [core, torch] = ["core", "torch"].map(|name| of(name, json!({})));
        let fixture = package("fixture", json!({ "metadata": { "toma": { "profiles": ["dev"] } } }));
        let tasks = of("tasks", json!({ "publish": [] }));
        Workspace::new(metadata(&[core, torch, fixture, tasks, facade]).unwrap(), "tasks")
    }

    #[test]
    fn default_members_and_the_extra_one_need_no_libtorch_and_come_root_first() {
        let workspace = workspace();
        let names: Vec<_> = workspace.all_packages().map(|package| &*package.name).collect();
        assert_eq!(names, ["facade", "core", "tasks", "torch"]);
        let with_libtorch = workspace.all_packages().filter(|package| workspace.needs_libtorch(package));
        assert_eq!(with_libtorch.map(|package| &*package.name).collect::<Vec<_>>(), ["torch"]);
        assert_eq!(workspace.fixtures[0].name, "fixture");
        let published: Vec<_> = workspace.published().map(|package| &*package.name).collect();
        assert_eq!(published, ["facade", "core", "torch"]);
    }

    #[test]
    fn a_package_has_features_targets_and_lists() {
        let workspace = workspace();
        let facade = workspace.facade();
        assert_eq!(facade.features().collect::<Vec<_>>(), ["tracing"]);
        assert_eq!(facade.targets_of("example").next().unwrap().feature_args(), ["--features", "a,b"]);
        assert!(facade.targets_of("bench").next().is_none());
        assert_eq!(facade.settings().slow_tests, ["twin::"]);
        assert_eq!(workspace.target("example", "bar").unwrap().0.name, "facade");
        let error = workspace.target("example", "foo").unwrap_err().to_string();
        assert_eq!(error, "unknown example `foo`; known: bar, bar, bar, bar");
    }

    #[test]
    fn an_unknown_key_is_named() {
        for (key, table) in [
            ("tset", json!({ "toma": { "examples": { "embed": { "tset": [] } } } })),
            ("slow", json!({ "toma": { "slow": [] } })),
        ] {
            let error = metadata(&[package("core", json!({ "metadata": table }))]).unwrap_err().to_string();
            assert!(error.contains(&format!("unknown field `{key}`")), "{error}");
        }
    }
}
