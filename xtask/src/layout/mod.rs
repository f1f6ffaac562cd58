//! Rules of the house that no other tool checks, over every file of the repository.

pub(crate) mod files;
mod links;
mod text;
mod tokens;

use anyhow::Result;

use crate::layout::files::{TextFile, text_files};
use crate::test::{Checks, all_clear};

/// Where `unsafe` may stand in what is shipped: paths that begin like this.
const UNSAFE_ALLOWED: &[&str] =
    &["toma-core/src/stack/walk.rs", "toma-cuda/src/driver.rs", "toma-torch/src/ffi"];

pub(crate) fn step(checks: &Checks<'_>) -> Result<String> {
    let files = text_files(checks.project)?;
    let root = &checks.project.workspace.root;
    let exists = |path: &str| root.join(path).exists();
    let problems: Vec<_> = files.iter().flat_map(|file| problems(file, &exists)).collect();
    all_clear(&problems)?;
    Ok(format!("{} files", files.len()))
}

fn problems(file: &TextFile, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = text::developer_paths(&file.text);
    match file.path.rsplit_once('.') {
        Some((_, "rs")) => {
            found.extend(text::too_long(file));
            found.extend(tokens::problems(file, is_allowed_unsafe(file)));
        }
        Some((_, "md")) => found.extend(links::broken(file, exists)),
        _ => {}
    }
    found.iter().map(|problem| format!("{}{problem}", file.path)).collect()
}

/// Tests and benchmarks may need `unsafe` for a counting allocator; the lint `unsafe_code` makes
/// them say why. Examples may not: they show what users write.
fn is_allowed_unsafe(file: &TextFile) -> bool {
    file.is_under("tests")
        || file.is_under("benches")
        || UNSAFE_ALLOWED.iter().any(|begin| file.path.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> Vec<String> {
        problems(&TextFile { path: path.into(), text: text.into() }, &|path| path == "README.md")
    }

    #[test]
    fn unsafe_stands_only_where_it_is_allowed() {
        let code = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(
            of("toma-core/src/engine.rs", code),
            ["toma-core/src/engine.rs:2: `unsafe` outside the files it is allowed in"]
        );
        assert_eq!(of("examples/quickstart.rs", code).len(), 1);
        for allowed in ["toma-core/src/stack/walk.rs", "tests/allocations.rs", "benches/a.rs"] {
            assert_eq!(of(allowed, code), [""; 0], "{allowed}");
        }
    }

    #[test]
    fn each_kind_of_file_has_its_rules() {
        assert_eq!(of("docs/a.md", "[x](../README.md) [y](README.md)").len(), 1);
        assert_eq!(of("a.toml", "[x](nowhere.md) unsafe"), [""; 0]);
        let path = concat!("/ho", "me/me/x");
        assert_eq!(of("a.toml", path).len(), 1);
    }
}
