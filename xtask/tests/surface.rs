//! The public items of each published package are those that `tests/surface` lists.
//!
//! `UPDATE_EXPECT=1 cargo xtask nightly surface` writes the lists anew: the difference is part of the review.
//!
//! # Why
//! rustdoc writes JSON for compilers with unstable options only, and `RUSTC_BOOTSTRAP` makes a stable one such. In
//! cargo's own environment the variable would run the build scripts of our dependencies again, and so build them
//! again. So cargo calls a script in place of rustdoc, which sets the variable for rustdoc alone.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PUBLISHED: [&str; 8] =
    ["toma", "toma-candle", "toma-core", "toma-cuda", "toma-macros", "toma-plan", "toma-torch", "toma-trace"];

#[test]
#[ignore = "rustdoc reads every package once more: cargo xtask nightly surface"]
fn the_public_surface_is_its_snapshot() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    document(target);
    for package in PUBLISHED {
        let json = target.join("doc").join(package.replace('-', "_")).with_extension("json");
        let written = serde_json::from_str::<Value>(&fs::read_to_string(&json).unwrap()).unwrap();
        if written["format_version"] != rustdoc_types::FORMAT_VERSION {
            eprintln!("not compared: rustdoc writes another format than {}", rustdoc_types::FORMAT_VERSION);
            return;
        }
        let snapshot = format!("{}/../tests/surface/{package}.txt", env!("CARGO_MANIFEST_DIR"));
        expect_test::expect_file![snapshot].assert_eq(&items(&json));
    }
}

/// Lets rustdoc write the public items, as JSON beside the documentation; with the packages and features of the other
/// checks, so that dependencies are not checked again.
fn document(target: &Path) {
    let script = target.join("tmp/rustdoc");
    fs::write(&script, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["doc", "--quiet", "--no-deps", "--all-features", "-p", "xtask"]);
    cargo.args(PUBLISHED.iter().flat_map(|package| ["-p", package])).arg("--target-dir").arg(target);
    cargo.env("RUSTDOC", script).env("RUSTDOCFLAGS", "-Z unstable-options --output-format json");
    assert!(cargo.status().unwrap().success());
}

/// Every public item of a crate with its signature, one a line. Derived implementations follow from none of our names.
fn items(json: &Path) -> String {
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    let mut lines: Vec<_> = api.unwrap().items().map(|item| format!("{item}\n")).collect();
    lines.sort();
    lines.dedup();
    lines.concat()
}
