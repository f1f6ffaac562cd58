//! Circles between the modules at the top of a crate: each would have to be read to understand any other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::files::TextFile;
use super::text::own_lines;

/// Which modules each module names.
type Arrows<'a> = BTreeMap<&'a str, BTreeSet<String>>;

/// A shortest circle among the modules of the crate whose sources stand in `folder`, with an arrow for each
/// `crate::`. Tests and the root of the crate are left out.
pub(super) fn circle(folder: &str, files: &[TextFile]) -> Option<String> {
    let arrows = arrows(folder, files);
    let circles = arrows.keys().filter_map(|start| shortest(start, &arrows));
    circles
        .min_by_key(Vec::len)
        .map(|circle| format!("{folder}: modules in a circle: {}", circle.join(" -> ")))
}

fn arrows<'a>(folder: &str, files: &'a [TextFile]) -> Arrows<'a> {
    let mut arrows = Arrows::new();
    for file in files.iter().filter(|file| !file.is_beside_the_product()) {
        let module = module(folder, &file.path).filter(|module| !["lib", "main"].contains(module));
        arrows.entry(module.unwrap_or_default()).or_default().extend(named(&file.text));
    }
    arrows.remove("");
    let known: BTreeSet<_> = arrows.keys().copied().collect();
    for (module, named) in &mut arrows {
        named.retain(|name| name != module && known.contains(&**name));
    }
    arrows
}

/// The module at the top that a file belongs to: `a` of `src/a.rs` and `src/a/b.rs`.
fn module<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    let within = path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
    within.split('/').next()
}

/// What stands behind `crate::`, alone or in braces.
fn named(text: &str) -> Vec<String> {
    let code = text.lines().take(own_lines(text)).filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    // A macro names its own crate, by `$crate`, from wherever it is used.
    let places = code.match_indices("crate::").filter(|(at, _)| !code[..*at].ends_with('$'));
    places.flat_map(|(at, name)| items(&code[at + name.len()..])).map(str::to_owned).collect()
}

/// The first word, or of a list in braces the first word of each item.
fn items(text: &str) -> Vec<&str> {
    let list = text.strip_prefix('{').and_then(|list| list.split("};").next());
    let Some(list) = list else { return vec![first_word(text)] };
    let mut depth = 0;
    let ends_item = |sign| {
        depth += i32::from(sign == '{') - i32::from(sign == '}');
        depth == 0 && sign == ','
    };
    list.split(ends_item).map(first_word).collect()
}

fn first_word(text: &str) -> &str {
    let is_sign = |sign: char| !(sign.is_alphanumeric() || sign == '_');
    text.trim_start().split(is_sign).next().unwrap_or_default()
}

/// The shortest way from a module back to itself.
fn shortest<'a>(start: &'a str, arrows: &'a Arrows<'a>) -> Option<Vec<&'a str>> {
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

    #[test]
    fn the_shortest_circle_is_named() {
        let sources = [
            ("a/src/one.rs", "use crate::{\n    three::{self, Y},\n    two::X,\n};\n"),
            ("a/src/two/mod.rs", "fn f() -> crate::three::Z {}\n"),
            ("a/src/three/deep/er.rs", "use crate::{Root, one};\n"),
        ];
        assert_eq!(found(&sources).unwrap(), "a/src: modules in a circle: one -> three -> one");
        assert_eq!(found(&sources[..2]), None);
    }

    #[test]
    fn a_circle_of_three_is_found_from_each_of_them() {
        let sources = [
            ("a/src/x.rs", "use crate::y;"),
            ("a/src/y.rs", "use crate::z::Z;"),
            ("a/src/z.rs", "use crate::x::X;"),
        ];
        assert_eq!(found(&sources).unwrap(), "a/src: modules in a circle: x -> y -> z -> x");
    }

    #[test]
    fn tests_comments_macros_the_root_and_other_crates_make_no_arrow() {
        let sources = [
            ("a/src/lib.rs", "use crate::one;"),
            ("a/src/one.rs", "use crate::two;"),
            (
                "a/src/two.rs",
                "//! [`crate::one`]\nuse $crate::one;\nuse crate::two::X;\n#[cfg(test)]\nmod tests {\n    use crate::one;\n}\n",
            ),
            ("a/src/two/tests.rs", "use crate::one;"),
            ("b/src/two.rs", "use crate::one;"),
        ];
        assert_eq!(found(&sources), None);
    }
}
