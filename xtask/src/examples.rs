//! Examples, with the files they need and the arguments they are run with, from `[package.metadata.toma.examples.NAME]`
//! of the package that declares them.

use anyhow::{Result, bail};
use xshell::Cmd;

use crate::metadata::{ExampleSettings, Package, Target, Workspace};

/// One example of the workspace.
#[derive(Debug)]
pub(crate) struct Example<'a> {
    pub(crate) package: &'a Package,
    pub(crate) target: &'a Target,
    pub(crate) needs_libtorch: bool,
    pub(crate) settings: ExampleSettings,
}

impl<'a> Example<'a> {
    /// The example of that name.
    pub(crate) fn find(workspace: &'a Workspace, name: &str) -> Result<Self> {
        let (package, target) = workspace.target("example", name)?;
        Ok(Self::of(workspace, package, target))
    }

    /// Every example. A table for an example that does not exist is an error.
    pub(crate) fn all(workspace: &'a Workspace) -> Result<Vec<Self>> {
        workspace.all_packages().try_for_each(check_tables)?;
        let of = |(package, target)| Self::of(workspace, package, target);
        Ok(workspace.targets_of("example").map(of).collect())
    }

    fn of(workspace: &'a Workspace, package: &'a Package, target: &'a Target) -> Self {
        let settings = package.settings().examples.get(&target.name).cloned().unwrap_or_default();
        Self { package, target, needs_libtorch: workspace.needs_libtorch(package), settings }
    }

    /// The options that select it.
    pub(crate) fn choice(&self) -> [&str; 4] {
        ["-p", &self.package.name, "--example", &self.target.name]
    }

    /// `cargo` with the options that select it and the features it needs.
    pub(crate) fn cargo<'c>(&self, cargo: Cmd<'c>) -> Cmd<'c> {
        cargo.args(self.choice()).args(self.target.feature_args())
    }
}

/// Fails if a table of the package names no example.
fn check_tables(package: &Package) -> Result<()> {
    let is_known = |name: &&String| package.targets_of("example").any(|target| target.name == **name);
    match package.settings().examples.keys().find(|name| !is_known(name)) {
        Some(name) => bail!("{}: no example `{name}`, which has a table", package.manifest.display()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::{metadata, package};

    #[test]
    fn a_table_of_no_example_is_a_mistake() {
        let targets = json!([{ "name": "embed", "kind": ["example"] }]);
        let workspace = |name: &str| {
            let tables = json!({ "toma": { "examples": { name: { "test": ["--check"] } } } });
            let package = package("core", json!({ "targets": targets, "metadata": tables }));
            Workspace::new(metadata(&[package]).unwrap(), "tasks")
        };
        assert_eq!(Example::all(&workspace("embed")).unwrap()[0].settings.test, ["--check"]);
        let error = Example::all(&workspace("embde")).unwrap_err().to_string();
        assert_eq!(error, "/w/core/Cargo.toml: no example `embde`, which has a table");
    }
}
