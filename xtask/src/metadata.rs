//! What `cargo metadata` says of the workspace.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// The workspace: where it stands, and the packages that are checked.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target_dir: PathBuf,
    /// The default members and this one, root package first.
    pub(crate) packages: Vec<Package>,
    /// Programs that list `profiles` to be run in.
    pub(crate) fixtures: Vec<Package>,
    /// The other members, which need libtorch.
    pub(crate) with_libtorch: Vec<Package>,
}

/// One package of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest: PathBuf,
    /// Every feature but `default` and those it lists as `libtorch-features`.
    pub(crate) features: Vec<String>,
    pub(crate) targets: Vec<Target>,
    /// Whether it may be published to a registry.
    pub(crate) published: bool,
    /// The `[package.metadata]` table.
    pub(crate) metadata: Value,
}

/// One thing cargo builds of a package.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kinds: Vec<String>,
    pub(crate) required_features: Vec<String>,
}

impl Workspace {
    /// Reads the answer of `cargo metadata`; `extra` is the one package that is checked without
    /// being a default member.
    pub(crate) fn parse(answer: &Value, extra: &str) -> Result<Self> {
        let root = PathBuf::from(text(answer, "workspace_root")?);
        let defaults = strings(&answer["workspace_default_members"]);
        let is_checked = |value: &Value| strings_contain(&defaults, &value["id"]) || value["name"] == extra;
        let mut workspace =
            Self { root, target_dir: text(answer, "target_directory")?.into(), ..Self::default() };
        for value in list(&answer["packages"]) {
            let package = Package::parse(value)?;
            match () {
                () if is_checked(value) => workspace.packages.push(package),
                () if package.listed("profiles").is_some() => workspace.fixtures.push(package),
                () => workspace.with_libtorch.push(package),
            }
        }
        workspace.packages.sort_by_key(|package| package.manifest.components().count());
        Ok(workspace)
    }

    /// Every package but the fixtures, those that need libtorch last.
    pub(crate) fn all_packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().chain(&self.with_libtorch)
    }

    /// Every target of that kind, with its package.
    pub(crate) fn targets_of(&self, kind: &'static str) -> impl Iterator<Item = (&Package, &Target)> {
        self.all_packages()
            .flat_map(move |package| package.targets_of(kind).map(move |target| (package, target)))
    }

    /// Whether building the package takes a libtorch.
    pub(crate) fn needs_libtorch(&self, package: &Package) -> bool {
        self.with_libtorch.iter().any(|with| with.name == package.name)
    }

    /// The target of that kind and name, with its package.
    pub(crate) fn target(&self, kind: &'static str, name: &str) -> Result<(&Package, &Target)> {
        self.targets_of(kind).find(|(_, target)| target.name == name).with_context(|| {
            let known: Vec<_> = self.targets_of(kind).map(|(_, target)| &*target.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("unknown {kind} `{name}`; known: {known}")
        })
    }

    /// The package at the root of the workspace: the one users depend on.
    pub(crate) fn facade(&self) -> Result<&Package> {
        let manifest = self.root.join("Cargo.toml");
        let at_root = self.packages.iter().find(|package| package.manifest == manifest);
        at_root.with_context(|| format!("no package at {}", manifest.display()))
    }

    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.all_packages().filter(|package| package.published)
    }
}

impl Package {
    pub(crate) fn parse(value: &Value) -> Result<Self> {
        let features = value["features"].as_object().into_iter().flat_map(|table| table.keys());
        let left_out = strings(&value["metadata"]["toma"]["libtorch-features"]);
        Ok(Self {
            name: text(value, "name")?.to_owned(),
            manifest: text(value, "manifest_path")?.into(),
            features: features
                .filter(|name| *name != "default" && !left_out.contains(name))
                .cloned()
                .collect(),
            targets: list(&value["targets"]).iter().map(Target::parse).collect::<Result<_>>()?,
            // `publish = false` shows as an empty list of registries.
            published: value["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
            metadata: value["metadata"].clone(),
        })
    }

    pub(crate) fn targets_of(&self, kind: &'static str) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(move |target| target.is(kind))
    }

    /// The list of names `[package.metadata.toma]` gives for `key`, if it gives one.
    pub(crate) fn listed(&self, key: &str) -> Option<Vec<String>> {
        let value = &self.metadata["toma"][key];
        value.is_array().then(|| strings(value))
    }
}

impl Target {
    fn parse(value: &Value) -> Result<Self> {
        Ok(Self {
            name: text(value, "name")?.to_owned(),
            kinds: strings(&value["kind"]),
            required_features: strings(&value["required-features"]),
        })
    }

    fn is(&self, kind: &str) -> bool {
        self.kinds.iter().any(|of| of == kind)
    }

    /// The options that make cargo build it.
    pub(crate) fn feature_args(&self) -> Vec<String> {
        match self.required_features.as_slice() {
            [] => Vec::new(),
            required => vec!["--features".to_owned(), required.join(",")],
        }
    }
}

/// The string at `key`.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata: no `{key}`"))
}

/// The items of an array, and none of anything else: cargo leaves out what is empty.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The strings of an array.
pub(crate) fn strings(value: &Value) -> Vec<String> {
    list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn strings_contain(strings: &[String], value: &Value) -> bool {
    strings.iter().any(|string| *value == **string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workspace() -> Workspace {
        let package = |name: &str, manifest: &str, publish: Value| {
            json!({
                "id": format!("path#{name}"), "name": name, "manifest_path": manifest, "publish": publish,
                "features": { "default": [], "tch": [], "tracing": ["dep:tracing"] },
                "targets": [{
                    "name": "bar", "kind": ["example"], "required-features": ["a", "b"],
                }],
                "metadata": { "toma": { "optimized-tests": ["caches"], "libtorch-features": ["tch"] } },
            })
        };
        let answer = json!({
            "workspace_root": "/w", "target_directory": "/t",
            "workspace_default_members": ["path#core", "path#facade"],
            "packages": [
                package("core", "/w/core/Cargo.toml", Value::Null),
                package("torch", "/w/torch/Cargo.toml", Value::Null),
                package("tasks", "/w/tasks/Cargo.toml", json!([])),
                package("facade", "/w/Cargo.toml", Value::Null),
            ],
        });
        Workspace::parse(&answer, "tasks").unwrap()
    }

    #[test]
    fn default_members_and_the_extra_one_need_no_libtorch_and_come_root_first() {
        let workspace = workspace();
        let names: Vec<_> = workspace.all_packages().map(|package| &*package.name).collect();
        assert_eq!(names, ["facade", "core", "tasks", "torch"]);
        let with: Vec<_> =
            workspace.all_packages().map(|package| workspace.needs_libtorch(package)).collect();
        assert_eq!(with, [false, false, false, true]);
        assert_eq!(workspace.facade().unwrap().name, "facade");
        let published: Vec<_> = workspace.published().map(|package| &*package.name).collect();
        assert_eq!(published, ["facade", "core", "torch"]);
    }

    #[test]
    fn a_package_tells_features_targets_and_lists() {
        let workspace = workspace();
        let package = workspace.facade().unwrap();
        assert_eq!(package.features, ["tracing"]);
        let example = package.targets_of("example").next().unwrap();
        assert_eq!(example.feature_args(), ["--features", "a,b"]);
        assert!(package.targets_of("bench").next().is_none());
        assert_eq!(package.listed("optimized-tests"), Some(vec!["caches".to_owned()]));
        assert_eq!(package.listed("profiles"), None);
    }

    #[test]
    fn an_unknown_target_is_named_with_those_there_are() {
        let workspace = workspace();
        let (package, example) = workspace.target("example", "bar").unwrap();
        assert_eq!((&*package.name, &*example.name), ("facade", "bar"));
        let error = |kind, name| workspace.target(kind, name).unwrap_err().to_string();
        assert_eq!(error("example", "foo"), "unknown example `foo`; known: bar, bar, bar, bar");
        assert_eq!(error("bench", "bar"), "unknown bench `bar`; known: none");
    }

    #[test]
    fn a_missing_field_is_named() {
        let error = Workspace::parse(&json!({}), "x").unwrap_err();
        assert_eq!(error.to_string(), "cargo metadata: no `workspace_root`");
    }
}
