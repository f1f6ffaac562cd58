//! The tests: unit and integration tests, documentation, release mode.

use anyhow::Result;
use xshell::Cmd;

use crate::layout::files::{TextFile, text_files};
use crate::metadata::{Target, Workspace};
use crate::project::Features;
use crate::test::Checks;

/// Everything with no feature and with all; with each feature alone what that feature has a part in.
pub(super) fn test(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let slow = project.workspace.facade()?.listed("slow-tests").unwrap_or_default();
    let files = text_files(project)?;
    let sets = project.feature_sets()?;
    let count = checks.run_all(sets.into_iter().map(|features| {
        let cargo =
            project.cargo_all("test", features).args(target_args(&project.workspace, features, &files));
        quiet(cargo).args(skip_args(features, &slow))
    }))?;
    Ok(format!("{count} sets of features"))
}

/// With one feature alone only unit tests and the integration tests that name it: the others are the same
/// programs as with no feature, and lints look at them in every set.
fn target_args(workspace: &Workspace, features: Features<'_>, files: &[TextFile]) -> Vec<String> {
    let Features::One(feature) = features else {
        // This leaves out examples, benchmarks and documentation: steps of their own.
        return vec!["--tests".to_owned()];
    };
    let condition = format!("feature = \"{feature}\"");
    let naming: Vec<_> = files.iter().filter(|file| file.text.contains(&condition)).collect();
    let names = |target: &Target| {
        target.required_features.iter().any(|required| required == feature)
            || naming.iter().any(|file| target.has_source(&workspace.root.join(&file.path)))
    };
    let packages = workspace.packages.iter();
    let tests = packages.flat_map(|package| package.targets_of("test")).filter(|test| names(test));
    let tests = tests.flat_map(|test| ["--test".to_owned(), test.name.clone()]);
    ["--lib".to_owned()].into_iter().chain(tests).collect()
}

/// Tests that the facade lists under `[package.metadata.toma] slow-tests`, by parts of their names,
/// run with all features only.
fn skip_args<'a>(features: Features<'_>, slow: &'a [String]) -> Vec<&'a str> {
    match features {
        Features::None | Features::One(_) => slow.iter().flat_map(|name| ["--skip", name]).collect(),
        Features::All => Vec::new(),
    }
}

pub(super) fn doc(checks: &Checks<'_>) -> Result<String> {
    let cargo = checks.project.cargo_all("test", Features::All).arg("--doc");
    checks.run_all([quiet(cargo)])?;
    Ok(String::new())
}

/// The integration tests that packages list under `[package.metadata.toma] release-tests`.
pub(super) fn release(checks: &Checks<'_>) -> Result<String> {
    let packages = checks.project.workspace.packages.iter();
    let listed: Vec<_> = packages.filter_map(|package| package.listed("release-tests")).flatten().collect();
    if listed.is_empty() {
        return Ok("no tests listed".to_owned());
    }
    // Built as the benchmarks are, which come next.
    let cargo = checks.project.cargo_all("test", Features::All).arg("--release");
    checks.run_all([quiet(cargo.args(listed.iter().flat_map(|test| ["--test", test])))])?;
    Ok(String::new())
}

/// All test programs are run, whichever fails; what passes is a dot.
pub(super) fn quiet(cargo: Cmd<'_>) -> Cmd<'_> {
    cargo.args(["--no-fail-fast", "--", "--quiet"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn slow_tests_run_with_all_features_only() {
        let slow = ["properties::".to_owned(), "mistakes".to_owned()];
        for features in [Features::None, Features::One("x")] {
            assert_eq!(skip_args(features, &slow), ["--skip", "properties::", "--skip", "mistakes"]);
        }
        assert_eq!(skip_args(Features::All, &slow), [""; 0]);
    }

    #[test]
    fn a_feature_alone_runs_the_tests_that_name_it() {
        let target = |name: &str, required: &[&str]| {
            json!({
                "name": name, "kind": ["test"], "src_path": format!("/w/tests/{name}/main.rs"),
                "required-features": required,
            })
        };
        let answer = json!({
            "workspace_root": "/w", "target_directory": "/t", "workspace_default_members": ["a"],
            "packages": [{
                "id": "a", "name": "a", "manifest_path": "/w/Cargo.toml",
                "targets": [target("named", &[]), target("required", &["x", "y"]), target("neither", &[])],
            }],
        });
        let workspace = Workspace::parse(&answer, "a").unwrap();
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("tests/named/part.rs", "#[cfg(feature = \"x\")]"),
            file("tests/neither/main.rs", "#[cfg(feature = \"xy\")]"),
        ];
        let args = |features| target_args(&workspace, features, &files);
        assert_eq!(args(Features::One("x")), ["--lib", "--test", "named", "--test", "required"]);
        assert_eq!(args(Features::One("y")), ["--lib", "--test", "required"]);
        for features in [Features::None, Features::All] {
            assert_eq!(args(features), ["--tests"]);
        }
    }
}
