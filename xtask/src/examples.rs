//! Examples, with the files they need and the arguments they are run with, as
//! `[package.metadata.toma.examples.NAME]` of the package that declares one says.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use xshell::Cmd;

use crate::metadata::{Package, Target, Workspace, strings, text};

/// One example of the workspace.
#[derive(Debug)]
pub(crate) struct Example<'a> {
    pub(crate) package: &'a Package,
    pub(crate) target: &'a Target,
    pub(crate) needs_libtorch: bool,
    pub(crate) settings: Settings,
}

/// What its table says; everything may be missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) data: Option<Data>,
    /// Arguments when the checks run it.
    pub(crate) test: Vec<String>,
    /// Arguments when the demonstration runs it, which it does with none but those that have them.
    pub(crate) demo: Option<Vec<String>>,
    /// What there is to see, in one line.
    pub(crate) about: Option<String>,
}

/// Files that are too large for the repository, from a Python package.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Data {
    /// Name and version, as pip is asked for them: `name==1.2.3`.
    pub(crate) package: String,
    /// The checksum of its one file.
    pub(crate) sha256: String,
    /// Where the files are in the package.
    pub(crate) folder: PathBuf,
    /// The variable by which the example learns where that is on this machine.
    pub(crate) variable: String,
}

impl<'a> Example<'a> {
    /// The example of that name.
    pub(crate) fn find(workspace: &'a Workspace, name: &str) -> Result<Self> {
        let (package, target) = workspace.target("example", name)?;
        Self::of(workspace, package, target)
    }

    /// Every example; a table for one that is not there is a mistake.
    pub(crate) fn all(workspace: &'a Workspace) -> Result<Vec<Self>> {
        workspace.all_packages().try_for_each(no_strangers)?;
        let of = |(package, target)| Self::of(workspace, package, target);
        workspace.targets_of("example").map(of).collect()
    }

    fn of(workspace: &'a Workspace, package: &'a Package, target: &'a Target) -> Result<Self> {
        let settings = Settings::parse(&tables(package)[&target.name])
            .with_context(|| format!("{}: example `{}`", package.manifest.display(), target.name))?;
        Ok(Self { package, target, needs_libtorch: workspace.needs_libtorch(package), settings })
    }

    /// The options that choose it.
    pub(crate) fn choice(&self) -> [&str; 4] {
        ["-p", &self.package.name, "--example", &self.target.name]
    }

    /// `cargo` with the options that choose it, optimized, with the features it needs.
    pub(crate) fn cargo<'c>(&self, cargo: Cmd<'c>) -> Cmd<'c> {
        cargo.arg("--release").args(self.choice()).args(self.target.feature_args())
    }
}

impl Settings {
    fn parse(table: &Value) -> Result<Self> {
        let Some(entries) = table.as_object() else { return Ok(Self::default()) };
        let known = ["package", "sha256", "folder", "variable", "test", "demo", "about"];
        if let Some(unknown) = entries.keys().find(|key| !known.contains(&key.as_str())) {
            bail!("unknown key `{unknown}`; known: {}", known.join(", "));
        }
        let about_data =
            ["package", "sha256", "folder", "variable"].iter().any(|key| entries.contains_key(*key));
        let data = about_data.then(|| Data::parse(table)).transpose()?;
        let demo = table["demo"].is_array().then(|| strings(&table["demo"]));
        let about = table["about"].as_str().map(str::to_owned);
        Ok(Self { data, test: strings(&table["test"]), demo, about })
    }
}

impl Data {
    fn parse(table: &Value) -> Result<Self> {
        let package = text(table, "package")?;
        let exact = package.split_once("==").is_some_and(|(name, version)| is_word(name) && is_word(version));
        ensure!(exact, "package `{package}`: must be `name==version`, so that everybody has the same files");
        let sha256 = text(table, "sha256")?;
        let is_sum = sha256.len() == 64 && sha256.chars().all(|char| char.is_ascii_hexdigit());
        ensure!(is_sum, "sha256 `{sha256}`: must be 64 hexadecimal digits");
        let (folder, variable) = (text(table, "folder")?.into(), text(table, "variable")?.to_owned());
        Ok(Self { package: package.to_owned(), sha256: sha256.to_owned(), folder, variable })
    }

    /// The name of the folder it is installed in.
    pub(crate) fn folder_name(&self) -> String {
        self.package.replace("==", "-")
    }
}

/// Names and versions of packages, which cannot be options or paths.
fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|char| char.is_ascii_alphanumeric() || "._-+!".contains(char))
}

fn no_strangers(package: &Package) -> Result<()> {
    let named = tables(package).as_object().into_iter().flat_map(|table| table.keys());
    let stranger = { named }.find(|name| !package.targets_of("example").any(|target| target.name == **name));
    match stranger {
        Some(name) => bail!("{}: no example `{name}`, which has a table", package.manifest.display()),
        None => Ok(()),
    }
}

fn tables(package: &Package) -> &Value {
    &package.metadata["toma"]["examples"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(examples: &Value) -> Package {
        let package = json!({
            "name": "torch", "manifest_path": "torch/Cargo.toml",
            "targets": [{ "name": "embed", "kind": ["example"], "src_path": "/w/embed.rs" }],
            "metadata": { "toma": { "examples": examples } },
        });
        Package::parse(&package).unwrap()
    }

    #[test]
    fn a_table_tells_files_and_arguments() {
        let settings = Settings::parse(&json!({
            "package": "model==0.1.0", "sha256": "0".repeat(64), "folder": "model/files", "variable": "MODEL_DIR", "about": "a model",
            "test": ["--check"], "demo": ["--input", "{lines}"],
        }));
        let settings = settings.unwrap();
        assert_eq!(settings.about.as_deref(), Some("a model"));
        let data = settings.data.unwrap();
        assert_eq!(data.folder_name(), "model-0.1.0");
        assert_eq!((data.folder, &*data.variable), ("model/files".into(), "MODEL_DIR"));
        assert_eq!(settings.test, ["--check"]);
        assert_eq!(settings.demo.unwrap(), ["--input", "{lines}"]);
    }

    #[test]
    fn no_table_and_a_table_without_files_are_fine() {
        assert_eq!(Settings::parse(&Value::Null).unwrap(), Settings::default());
        let settings = Settings::parse(&json!({ "test": ["--fast"] })).unwrap();
        assert_eq!((settings.data, settings.test), (None, vec!["--fast".to_owned()]));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |table: Value| Settings::parse(&table).unwrap_err().to_string();
        assert_eq!(
            error(json!({ "tests": [] })),
            "unknown key `tests`; known: package, sha256, folder, variable, test, demo, about"
        );
        let table = json!({ "package": "a==1", "sha256": "0".repeat(64), "folder": "b" });
        assert!(error(table).contains("`variable`"));
        let table = json!({ "package": "a==1", "sha256": "0123", "folder": "b", "variable": "C" });
        assert_eq!(error(table), "sha256 `0123`: must be 64 hexadecimal digits");
        assert!(error(json!({ "folder": "b", "variable": "C" })).contains("`package`"));
        for vague in ["model", "model>=1", "model==", "==1", "--index==1", "../x==1", "a==1/2", "a b==1"] {
            let table = json!({ "package": vague, "folder": "b", "variable": "C" });
            assert!(error(table).starts_with(&format!("package `{vague}`")), "{vague}");
        }
    }

    #[test]
    fn a_table_of_no_example_is_named() {
        assert!(no_strangers(&package(&json!({ "embed": {} }))).is_ok());
        let error = no_strangers(&package(&json!({ "embed": {}, "embde": {} }))).unwrap_err().to_string();
        assert_eq!(error, "torch/Cargo.toml: no example `embde`, which has a table");
    }
}
