//! The paths by which users reach each name, through re-exports from crate to crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use rustdoc_types::{Crate, Id, Item, ItemEnum, ItemKind, ItemSummary};

/// The crates that are ours, by name.
#[derive(Debug)]
pub(super) struct Crates(BTreeMap<String, Crate>);

/// What can be reached, each with the paths that lead to it.
#[derive(Debug, Default)]
pub(super) struct Reached(BTreeMap<Name, BTreeSet<String>>);

/// Where an item was defined, and its kind: a function and a module may share a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    defined: String,
    kind: String,
}

impl Reached {
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Every path with the kind of what it leads to.
    pub(super) fn lines(&self) -> Vec<String> {
        let paths = self.0.iter();
        paths.flat_map(|(name, paths)| paths.iter().map(|path| format!("{path} {}", name.kind))).collect()
    }

    pub(super) fn with_several_paths(&self) -> Vec<String> {
        let several = self.0.iter().filter(|(_, paths)| paths.len() > 1);
        let told = several.map(|(name, paths)| {
            let paths = paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>();
            format!("{} `{}` has several paths: {}", name.kind, name.defined, paths.join(", "))
        });
        told.collect()
    }
}

impl Crates {
    /// Reads what rustdoc has written.
    pub(super) fn read(files: impl Iterator<Item = PathBuf>) -> Result<Self> {
        let read = files.map(|file| {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            Ok((name, serde_json::from_str(&text).with_context(|| file.display().to_string())?))
        });
        Ok(Self(read.collect::<Result<_>>()?))
    }

    /// Every name that a user of the crate can write and that is documented.
    pub(super) fn reached_from(&self, name: &str) -> Result<Reached> {
        let facade = self.0.get(name).with_context(|| format!("no crate `{name}`"))?;
        let mut reached = Reached::default();
        self.reach(facade, facade.root, name, &mut reached)?;
        Ok(reached)
    }

    fn reach(&self, of: &Crate, id: Id, path: &str, reached: &mut Reached) -> Result<()> {
        let Some(item) = of.index.get(&id) else { return self.reach_elsewhere(of, id, path, reached) };
        if let ItemEnum::Use(reexport) = &item.inner {
            let id = reexport.id.with_context(|| format!("`{path}` re-exports a primitive type"))?;
            return self.reach(of, id, path, reached);
        }
        let name = name_of(of, id, path)?;
        reached.0.entry(name).or_default().insert(path.to_owned());
        let ItemEnum::Module(module) = &item.inner else { return Ok(()) };
        for id in &module.items {
            let Some(child) = of.index.get(id) else { continue };
            let Some(name) = written(child).with_context(|| format!("module `{path}`"))? else { continue };
            self.reach(of, *id, &format!("{path}::{name}"), reached)?;
        }
        Ok(())
    }

    /// What another crate has defined. Of one that is not ours, or that is hidden there, the name is all there is.
    fn reach_elsewhere(&self, of: &Crate, id: Id, path: &str, reached: &mut Reached) -> Result<()> {
        let summary = of.paths.get(&id).with_context(|| format!("`{path}` leads nowhere"))?;
        let theirs = summary.path.first().and_then(|name| self.0.get(name));
        let found = theirs.and_then(|theirs| Some((theirs, own_item(theirs, summary)?)));
        if let Some((theirs, id)) = found {
            return self.reach(theirs, id, path, reached);
        }
        reached.0.entry(name_of(of, id, path)?).or_default().insert(path.to_owned());
        Ok(())
    }
}

/// The documented item of this crate that another one means.
fn own_item(of: &Crate, summary: &ItemSummary) -> Option<Id> {
    let is_meant =
        |own: &ItemSummary| own.crate_id == 0 && own.path == summary.path && own.kind == summary.kind;
    let mut own = of.paths.iter().filter(|(id, own)| is_meant(own) && of.index.contains_key(id));
    own.next().map(|(id, _)| *id)
}

fn name_of(of: &Crate, id: Id, path: &str) -> Result<Name> {
    let summary = of.paths.get(&id).with_context(|| format!("`{path}` leads to nothing with a path"))?;
    Ok(Name { defined: summary.path.join("::"), kind: word(summary.kind)? })
}

/// The kind as rustdoc spells it.
fn word(kind: ItemKind) -> Result<String> {
    let word = serde_json::to_value(kind)?;
    Ok(word.as_str().context("a kind is a word")?.to_owned())
}

/// What users write for an item in its module; implementations have no name.
fn written(item: &Item) -> Result<Option<&str>> {
    let ItemEnum::Use(reexport) = &item.inner else { return Ok(item.name.as_deref()) };
    ensure!(!reexport.is_glob, "`pub use {}::*` does not say which names are public", reexport.source);
    Ok(Some(&reexport.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustdoc_types::FORMAT_VERSION;
    use serde_json::{Map, Value, json};

    /// A crate of modules, structs and re-exports; item 0 is its root.
    fn of(items: &[(u32, Option<&str>, Value)], paths: &[(u32, &str, &str, u32)]) -> Crate {
        let index = items.iter().map(|(id, name, inner)| {
            let item = json!({
                "id": id, "crate_id": 0, "name": name, "span": null, "visibility": "public", "docs": null,
                "links": {}, "attrs": [], "deprecation": null, "inner": inner,
            });
            (id.to_string(), item)
        });
        let paths = paths.iter().map(|(id, path, kind, of)| {
            let path: Vec<_> = path.split("::").collect();
            (id.to_string(), json!({ "crate_id": of, "path": path, "kind": kind }))
        });
        let all = json!({
            "root": 0, "crate_version": null, "includes_private": false, "format_version": FORMAT_VERSION,
            "external_crates": {}, "target": { "triple": "", "target_features": [] },
            "index": index.collect::<Map<_, _>>(), "paths": paths.collect::<Map<_, _>>(),
        });
        serde_json::from_value(all).unwrap()
    }

    fn module(items: &[u32]) -> Value {
        json!({ "module": { "is_crate": false, "items": items, "is_stripped": false } })
    }

    fn reexport(name: &str, id: u32, is_glob: bool) -> Value {
        json!({ "use": { "source": format!("x::{name}"), "name": name, "id": id, "is_glob": is_glob } })
    }

    fn thing() -> Value {
        let generics = json!({ "params": [], "where_predicates": [] });
        json!({ "struct": { "kind": "unit", "generics": generics, "impls": [] } })
    }

    /// `engine::cache::Key`, and a facade that re-exports what `reexports` says.
    fn reached(reexports: &[(&str, u32, bool)]) -> Result<Reached> {
        let engine = of(
            &[(0, Some("engine"), module(&[1])), (1, Some("cache"), module(&[2])), (2, Some("Key"), thing())],
            &[
                (0, "engine", "module", 0),
                (1, "engine::cache", "module", 0),
                (2, "engine::cache::Key", "struct", 0),
            ],
        );
        let ids: Vec<_> = (10..).take(reexports.len()).collect();
        let mut items = vec![(0, Some("facade"), module(&ids))];
        let uses = reexports.iter().zip(&ids);
        items.extend(uses.map(|((name, id, is_glob), own)| (*own, None, reexport(name, *id, *is_glob))));
        let facade = of(
            &items,
            &[
                (0, "facade", "module", 0),
                (1, "engine::cache", "module", 5),
                (2, "engine::cache::Key", "struct", 5),
                (3, "foreign::Thing", "struct", 6),
            ],
        );
        let crates = [("engine".to_owned(), engine), ("facade".to_owned(), facade)];
        Crates(BTreeMap::from(crates)).reached_from("facade")
    }

    #[test]
    fn names_are_found_through_the_crates_that_define_them() {
        let reached = reached(&[("cache", 1, false), ("Thing", 3, false)]).unwrap();
        let mut lines = reached.lines();
        lines.sort();
        assert_eq!(
            lines,
            ["facade module", "facade::Thing struct", "facade::cache module", "facade::cache::Key struct"]
        );
        assert_eq!((reached.count(), reached.with_several_paths()), (4, vec![]));
    }

    #[test]
    fn a_name_with_two_paths_is_told_with_both() {
        let reached = reached(&[("cache", 1, false), ("Renamed", 2, false)]).unwrap();
        let told = "struct `engine::cache::Key` has several paths: `facade::Renamed`, `facade::cache::Key`";
        assert_eq!((reached.count(), reached.with_several_paths()), (3, vec![told.to_owned()]));
    }

    #[test]
    fn a_glob_and_what_leads_nowhere_are_refused_with_their_place() {
        let error = reached(&[("cache", 1, true)]).unwrap_err();
        let told = "module `facade`: `pub use x::cache::*` does not say which names are public";
        assert_eq!(format!("{error:#}"), told);
        let error = reached(&[("gone", 9, false)]).unwrap_err();
        assert_eq!(error.to_string(), "`facade::gone` leads nowhere");
    }
}
