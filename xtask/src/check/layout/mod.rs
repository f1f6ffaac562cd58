//! Project rules that no other tool checks, over every file of the repository.

mod circles;
mod files;
mod links;
mod text;

use std::path::Path;

use anyhow::Result;

use super::{Checks, all_clear};
use files::{TextFile, text_files};

/// Shipped code that may use `unsafe`: prefixes of paths.
const UNSAFE_ALLOWED: &[&str] =
    &["toma-core/src/stack/walk.rs", "toma-cuda/src/driver.rs", "toma-torch/src/ffi"];

pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let root = checks.project.workspace.root.canonicalize()?;
    let files = text_files(checks.project)?;
    let leads = |path: &Path, heading: Option<&str>| links::leads(&root, path, heading);
    let crates = files.iter().filter(|file| !file.is_not_shipped()).filter_map(TextFile::crate_root);
    let circles = crates.filter_map(|folder| circles::circle(folder, &files));
    let problems: Vec<_> = files.iter().flat_map(|file| problems(file, &leads)).chain(circles).collect();
    all_clear(&problems)?;
    Ok(format!("{} files", files.len()))
}

fn problems(file: &TextFile, leads: &links::Leads<'_>) -> Vec<String> {
    let mut found = Vec::new();
    match file.path.rsplit_once('.') {
        Some((_, "rs")) => {
            found.extend(text::too_long(file));
            found.extend((!is_allowed_unsafe(file)).then(|| text::lifts_unsafe(&file.text)).flatten());
        }
        Some((_, "md")) => {
            found.extend(links::broken(file, leads));
            found.extend(links::undefined(file));
        }
        _ => {}
    }
    found.iter().map(|problem| format!("{}{problem}", file.path)).collect()
}

/// Tests and benchmarks may need `unsafe` for a counting allocator. Examples may not, because users copy them.
fn is_allowed_unsafe(file: &TextFile) -> bool {
    file.is_under("tests")
        || file.is_under("benches")
        || UNSAFE_ALLOWED.iter().any(|begin| file.path.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> Vec<String> {
        problems(&TextFile { path: path.into(), text: text.into() }, &|path, _| {
            path == Path::new("docs/../README.md")
        })
    }

    #[test]
    fn unsafe_stands_only_where_it_is_allowed() {
        let code =
            concat!("fn f() {\n    #[expect(unsafe", "_code, reason = \"why\")]\n    unsafe { g() }\n}\n");
        assert_eq!(
            of("toma-core/src/engine.rs", code),
            ["toma-core/src/engine.rs:2: lifts the ban on `unsafe` outside the files it is allowed in"]
        );
        assert_eq!(of("examples/train.rs", code).len(), 1);
        for allowed in ["toma-core/src/stack/walk.rs", "tests/allocations.rs", "benches/a.rs"] {
            assert_eq!(of(allowed, code), [""; 0], "{allowed}");
        }
        let stricter = concat!("#![forbid(unsafe", "_code)]\n");
        assert_eq!(of("toma-trace/src/lib.rs", stricter), [""; 0]);
    }

    #[test]
    fn each_kind_of_file_has_its_rules() {
        assert_eq!(of("benches/a.md", "[x](nowhere.md)").len(), 1);
        assert_eq!(of("docs/a.md", "[x](../README.md) [y](README.md) [z][w]").len(), 2);
        assert_eq!(of("a.toml", "[x](nowhere.md) unsafe"), [""; 0]);
    }
}
