//! No cell is missing.

use std::collections::BTreeSet;
use std::env::current_exe;
use std::process::Command;

/// The options that have a meaning in every form; `dim` has one for chunked data only.
const OPTIONS: [&str; 18] = [
    "before_retry",
    "cache_instance",
    "cache_type",
    "classify",
    "deadline",
    "device",
    "initial",
    "key",
    "ladder",
    "max",
    "max_attempts",
    "min",
    "multiple_of",
    "name",
    "observer",
    "policy",
    "predict",
    "ranks",
];

const INLINE: [&str; 8] = ["batch", "range", "chunked", "map", "fold", "iter", "stream", "range_by_cost"];

const ATTRIBUTES: [&str; 3] = ["batch", "range", "chunked"];

#[test]
fn every_option_is_tested_in_every_form() {
    let cells: BTreeSet<String> = cells().collect();
    let tests = tests();
    let missing: Vec<_> = cells.difference(&tests).collect();
    assert!(missing.is_empty(), "cells without a test: {missing:?}");
    assert_eq!(cells.len(), OPTIONS.len() * (8 + 12) + 5);
}

/// An attribute that is given an unknown option lists those there are. Of them `crate` has no row: it
/// changes a path and no call, and `tests/fixtures/renamed` gives it in each form.
#[test]
fn every_option_there_is_has_a_row() {
    let message = include_str!("../ui/attribute/unknown_option.stderr").lines().next().unwrap();
    let (_, options) = message.split_once("`#[toma::chunked]` has ").unwrap();
    let there_are: BTreeSet<&str> = options.split(", ").collect();
    let row_of = |row: &'static str| if row.starts_with("cache") { "cache" } else { row };
    let tested: BTreeSet<&str> = OPTIONS.map(row_of).into_iter().chain(["dim", "crate"]).collect();
    assert_eq!(there_are, tested);
}

fn cells() -> impl Iterator<Item = String> {
    let everywhere = OPTIONS.iter().flat_map(|option| forms().map(move |form| format!("{option}::{form}")));
    let chunked = forms().filter(|form| form.contains("chunked")).map(|form| format!("dim::{form}"));
    everywhere.chain(chunked)
}

fn forms() -> impl Iterator<Item = String> {
    let inline = INLINE.iter().map(|form| format!("inline_{form}"));
    let variants = ["usize", "i64", "usize_async", "i64_async"];
    let attributes =
        ATTRIBUTES.iter().flat_map(move |form| variants.map(|variant| format!("{form}_{variant}")));
    inline.chain(attributes)
}

/// The tests of this very binary.
fn tests() -> BTreeSet<String> {
    let list = Command::new(current_exe().unwrap()).args(["--list", "--format", "terse"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    list.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect()
}
