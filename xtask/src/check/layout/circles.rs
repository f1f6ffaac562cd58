//! Finds circles of source files, because a reader must know all files of a circle to understand one.
//!
//! An arrow leads from a file to every file whose items it names: by `use`, and by paths that begin with `crate`,
//! `super`, `self`, a child module or an import. A re-exported name leads to its definition, so `super::Name` leads to
//! the sibling that defines it. Re-exports of children are no arrows. A parent has an arrow where its own code uses a
//! child, and they form a circle if that child uses items that the parent defines.
//!
//! Tests are ignored, and so is the root of the crate, to which everything belongs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::files::TextFile;
use super::text::own_lines;

/// The files of a crate by their modules: `a/b` is the module of `src/a/b.rs` or `src/a/b/mod.rs`.
type Modules = BTreeMap<String, Module>;

#[derive(Default)]
struct Module {
    file: String,
    imports: Vec<Import>,
    /// All code except imports, declarations of modules, attributes and comments.
    code: String,
}

/// A name that `use` brings in.
struct Import {
    is_public: bool,
    path: String,
    name: String,
}

/// A shortest circle among the files of the crate whose sources are in `folder`.
pub(super) fn circle(folder: &str, files: &[TextFile]) -> Option<String> {
    let own = files.iter().filter(|file| !file.is_not_shipped());
    let modules: Modules =
        own.filter_map(|file| Some((key(folder, &file.path)?, Module::of(file)))).collect();
    let files = modules.iter().filter(|(key, _)| !key.is_empty());
    let arrows: BTreeMap<_, _> = files.map(|(key, module)| (&**key, arrows(&modules, key, module))).collect();
    let circle = arrows.keys().filter_map(|start| shortest(start, &arrows)).min_by_key(Vec::len)?;
    let files: Vec<_> = circle.iter().map(|key| &*modules[*key].file).collect();
    Some(format!("files in a circle: {}", files.join(" -> ")))
}

fn key(folder: &str, path: &str) -> Option<String> {
    let key = path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
    let is_root = ["lib", "main"].contains(&key);
    Some(if is_root { String::new() } else { key.strip_suffix("/mod").unwrap_or(key).to_owned() })
}

impl Module {
    fn of(file: &TextFile) -> Self {
        let mut module = Self { file: file.path.clone(), ..Self::default() };
        let (mut import, mut is_inline) = (String::new(), false);
        let lines = file.text.lines().take(own_lines(&file.text));
        let is_code =
            |line: &&str| !["//", "#[", "#!["].iter().any(|sign| line.trim_start().starts_with(sign));
        for line in lines.filter(is_code) {
            let item = without_visibility(line.trim_start());
            is_inline = (is_inline || !line.starts_with(' ') && item.starts_with("mod ")) && line != "}";
            let line = if is_inline { from_the_file(line) } else { line.to_owned() };
            if !import.is_empty() || item.starts_with("use ") {
                import += line.trim_start();
                if import.ends_with(';') {
                    module.add_imports(&import);
                    import.clear();
                }
            } else if !(item.starts_with("mod ") && item.ends_with(';')) {
                // `pub(in path)` uses nothing.
                module.code += &line.replace("(in ", "(in $");
                module.code.push('\n');
            }
        }
        module
    }

    fn add_imports(&mut self, statement: &str) {
        let tree = statement.split_once("use ").map_or("", |(_, tree)| tree.trim_end_matches(';'));
        add_tree(tree, "", statement.starts_with("pub"), &mut self.imports);
    }
}

/// Rewrites a line of a module within a file, whose parent is the file.
fn from_the_file(line: &str) -> String {
    // Written in pieces, so that this file keeps its own rule.
    let (own, parent) = (concat!("self", "::"), concat!("super", "::"));
    line.replace(parent, own).replace(&own.repeat(2), parent)
}

fn without_visibility(item: &str) -> &str {
    let Some(rest) = item.strip_prefix("pub") else { return item };
    let rest = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
    rest.trim_start()
}

/// Adds the imports of a tree such as `a::{b, c::{self, D as E}}`.
fn add_tree(tree: &str, before: &str, is_public: bool, imports: &mut Vec<Import>) {
    if let Some((head, list)) = tree.split_once('{') {
        let before = [before, head.trim()].concat();
        let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
        let items = items(list).filter(|item| !item.trim().is_empty());
        return items.for_each(|item| add_tree(item, &before, is_public, imports));
    }
    let (path, alias) = tree.trim().split_once(" as ").unwrap_or((tree.trim(), ""));
    let path = [before, path].concat();
    let path = path.strip_suffix("::self").unwrap_or(&path);
    let last = path.rsplit("::").next().unwrap_or_default();
    let name = if alias.is_empty() { last } else { alias };
    imports.push(Import { is_public, path: path.to_owned(), name: name.to_owned() });
}

/// The items of a list, which may hold lists.
fn items(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    list.split(move |sign| {
        depth += i32::from(sign == '{') - i32::from(sign == '}');
        depth == 0 && sign == ','
    })
}

/// The modules whose files this module names.
fn arrows(modules: &Modules, key: &str, module: &Module) -> BTreeSet<String> {
    let is_word = |sign: char| sign.is_alphanumeric() || ['_', ':', '$'].contains(&sign);
    let paths = module.code.split(|sign| !is_word(sign)).filter(|word| word.contains("::"));
    let named = paths.filter_map(|path| resolved(modules, key, path, 0));
    let imported = module.imports.iter().filter_map(|import| {
        let to = resolved(modules, key, &import.path, 0)?;
        let is_passed_on = import.is_public && to.starts_with(&format!("{key}/"));
        (!is_passed_on || uses(&module.code, &import.name)).then_some(to)
    });
    named.chain(imported).filter(|to| to != key && !to.is_empty()).collect()
}

/// The module that defines the item of a path within another module; `None` for items of other crates.
fn resolved(modules: &Modules, from: &str, path: &str, depth: u32) -> Option<String> {
    let (mut at, mut rest) = (from.to_owned(), path);
    while !rest.is_empty() {
        let (name, deeper) = rest.split_once("::").unwrap_or((rest, ""));
        let inner = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
        at = match name {
            "crate" => String::new(),
            "self" => at,
            "super" => at.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned(),
            _ if modules.contains_key(&inner) => inner,
            _ => {
                let imports = modules.get(&at)?.imports.iter().filter(|import| import.name == name);
                // Imports may name each other in a circle.
                let mut imports = imports.filter(|_| depth < 8);
                let passed_on = |import: &Import| [&*import.path, "::", deeper].concat();
                let found = imports.find_map(|import| resolved(modules, &at, &passed_on(import), depth + 1));
                return found.or((rest.len() < path.len()).then_some(at));
            }
        };
        rest = deeper;
    }
    Some(at)
}

/// True if code names a type, or calls a function.
fn uses(code: &str, name: &str) -> bool {
    let is_word = |sign: char| sign.is_alphanumeric() || sign == '_';
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_apart = !before.ends_with(|sign| is_word(sign) || sign == '.' || sign == ':');
        let is_call = after.starts_with('(') && !before.ends_with("fn ");
        is_apart && !after.starts_with(is_word) && (is_call || name.starts_with(char::is_uppercase))
    })
}

/// The shortest path from a module back to itself.
fn shortest<'a>(start: &'a str, arrows: &'a BTreeMap<&str, BTreeSet<String>>) -> Option<Vec<&'a str>> {
    let (mut ways, mut seen) = (VecDeque::from([vec![start]]), BTreeSet::new());
    while let Some(way) = ways.pop_front() {
        for next in arrows.get(way.last()?).into_iter().flatten() {
            let longer: Vec<_> = way.iter().copied().chain([&**next]).collect();
            if next == start {
                return Some(longer);
            }
            ways.extend(seen.insert(next).then_some(longer));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: &[(&str, &str)]) -> Option<String> {
        let file = |(path, text): &(&str, &str)| TextFile { path: (*path).into(), text: (*text).into() };
        circle("a/src", &sources.iter().map(file).collect::<Vec<_>>())
    }

    /// True if the first file has an arrow to `a/src/to.rs`, next to a parent that re-exports its items.
    fn leads_back(text: &str) -> bool {
        let parent = "mod one;\nmod to;\npub(crate) use to::{Far as Near, deep};\n";
        let to = "use crate::x::one;\n";
        found(&[("a/src/x/one.rs", text), ("a/src/x/mod.rs", parent), ("a/src/x/to.rs", to)]).is_some()
    }

    #[test]
    fn the_shortest_circle_is_named_by_its_files() {
        let sources = [
            ("a/src/one.rs", "use crate::{\n    three::{self, Y},\n    two::X,\n};\n"),
            ("a/src/two/mod.rs", "fn f() -> crate::three::Z {}\n"),
            ("a/src/three.rs", "use crate::{Root, one};\n"),
        ];
        let circle = "files in a circle: a/src/one.rs -> a/src/three.rs -> a/src/one.rs";
        assert_eq!(found(&sources).unwrap(), circle);
        assert_eq!(found(&sources[..2]), None);
    }

    #[test]
    fn a_circle_of_four_is_found_and_a_folder_is_no_file() {
        let sources = [
            ("a/src/x/one.rs", "use crate::y;"),
            ("a/src/y.rs", "use crate::z::Z;"),
            ("a/src/z.rs", "use crate::x::two::X;"),
            ("a/src/x/mod.rs", "mod one;\nmod two;\n"),
            ("a/src/x/two.rs", "use super::one;"),
        ];
        assert_eq!(found(&sources).unwrap().matches("->").count(), 4);
        assert_eq!(found(&sources[..4]), None);
    }

    #[test]
    fn arrows_are_read_from_imports_and_from_paths() {
        for text in [
            "use super::to::X;",
            "use super::{\n    to::{self, X},\n};",
            "pub(crate) use super::super::x::to as other;",
            "fn f() -> Vec<super::to::X> {}",
            "fn f() {\n    let x: crate::x::to::X = y;\n}",
            "use crate::x;\nfn f() { x::to::f() }",
            "use super::Near;",
            "use super::{deep as other};",
            "fn f(near: super::Near) {}",
            "use crate::x::Near;",
            "mod inner {\n    use super::super::to::X;\n}",
        ] {
            assert!(leads_back(text), "{text}");
        }
    }

    #[test]
    fn comments_tests_macros_other_names_and_other_crates_make_no_arrow() {
        for text in [
            "//! [`super::to`]\n/// [`crate::x::to::X`]\nfn f() {} // ",
            "use $crate::x::to;",
            "pub(in crate::x::to) fn f() {}",
            "use to::X;",
            "use other::super_to::Near;",
            "mod inner {\n    use super::Near;\n}",
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    use super::super::to;\n}\n",
        ] {
            assert!(!leads_back(text), "{text}");
        }
        let tests = [("a/src/one.rs", "use crate::two;"), ("a/src/two/tests.rs", "use crate::one;")];
        assert_eq!(found(&tests), None);
        let root = [("a/src/lib.rs", "use one::X;"), ("a/src/one.rs", "use crate::Root;")];
        assert_eq!(found(&root), None);
        let elsewhere = [("a/src/one.rs", "use crate::two;"), ("b/src/two.rs", "use crate::one;")];
        assert_eq!(found(&elsewhere), None);
    }

    #[test]
    fn a_parent_uses_children_where_its_own_code_does() {
        let with = |parent: &str| {
            let child = "use super::Own;\npub struct X;\npub fn run() {}\n";
            found(&[("a/src/x.rs", parent), ("a/src/x/child.rs", child)]).is_some()
        };
        assert!(!with("mod child;\npub use child::{\n    X, run,\n};\nstruct Own;\n"));
        assert!(!with(
            "mod child;\npub use child::run;\nstruct Own { run: u8 }\nimpl Own { fn run(&self) { self.run() } }\n"
        ));
        assert!(with("mod child;\npub use child::X;\nstruct Own(X);\n"));
        assert!(with("mod child;\npub use child::run;\nfn own() { run() }\n"));
        assert!(with("mod child;\nstruct Own;\nfn own() { child::run() }\n"));
        assert!(with("mod child;\nuse self::child::X;\nstruct Own;\n"));
    }
}
