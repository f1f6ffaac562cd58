//! Helpers of several tests, and tests of the command line.

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::metadata::Metadata;

/// A folder for one test, removed when the test ends.
#[derive(Debug)]
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        Self(TempDir::with_prefix(format!("xtask-{name}-")).unwrap())
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Writes a file and creates its folders.
    pub(crate) fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// A package in cargo's format: `more` adds to or replaces the entries that every package has.
pub(crate) fn package(name: &str, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more}") };
    let mut package = json!({
        "id": format!("path#{name}"), "name": name, "version": "0.1.0", "manifest_path": format!("/w/{name}/Cargo.toml"),
        "features": {}, "targets": [], "metadata": null,
    });
    package.as_object_mut().unwrap().extend(more);
    package
}

pub(crate) fn metadata(packages: &[Value]) -> Result<Metadata, serde_json::Error> {
    serde_json::from_value(json!({
        "workspace_root": "/w", "target_directory": "/t", "packages": packages,
        "workspace_default_members": ["path#core", "path#facade"],
    }))
}

fn parse(line: &str) -> Result<Line, clap::Error> {
    Line::try_parse_from(line.split_whitespace())
}

#[test]
fn the_description_is_consistent() {
    Line::command().debug_assert();
}

#[test]
fn flags_stand_anywhere_and_arguments_after_two_dashes_are_passed_on() {
    for line in ["xtask test doc --cpu --fail-fast fmt", "xtask --cpu test --fail-fast doc fmt"] {
        let Line { command: Command::Test(test), libtorch } = parse(line).unwrap() else { panic!("{line}") };
        assert!(libtorch.cpu && test.how.fail_fast && test.how.steps == ["doc", "fmt"], "{test:?}");
    }
    let line = parse("xtask bench overhead -- --help -- x").unwrap();
    let Command::Bench(bench) = line.command else { panic!("{line:?}") };
    assert_eq!((bench.name.as_deref(), &*bench.rest.concat()), (Some("overhead"), "--help--x"));
}

#[test]
fn meaningless_arguments_are_refused() {
    let lines =
        "test --cpu --cuda|run a b|bench --calls 5|bench --instructions -- a|torch test|nightly --seed x";
    for line in lines.split('|') {
        assert!(parse(&format!("xtask {line}")).is_err(), "{line}");
    }
}

#[test]
fn the_comparison_with_peers_passes_its_own_tests() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/peers/test_compare.py");
    let output = std::process::Command::new("python3").args(["-B", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
