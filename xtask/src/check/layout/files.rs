//! The files of the repository.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// A text file of the repository.
#[derive(Debug)]
pub(super) struct TextFile {
    /// Relative to the root of the repository, with forward slashes.
    pub(super) path: String,
    pub(super) text: String,
}

impl TextFile {
    /// True if its path contains a folder of that name.
    pub(super) fn is_under(&self, folder: &str) -> bool {
        self.path.rsplit('/').skip(1).any(|name| name == folder)
    }

    /// The folder of the crate's sources, if this is the root of a library or a program.
    pub(super) fn crate_root(&self) -> Option<&str> {
        let (folder, name) = self.path.rsplit_once('/')?;
        (folder.ends_with("src") && ["lib.rs", "main.rs"].contains(&name)).then_some(folder)
    }

    /// True if the file only tests or demonstrates the shipped code.
    pub(super) fn is_beside_the_product(&self) -> bool {
        ["tests", "benches", "examples"].iter().any(|folder| self.is_under(folder))
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("_tests.rs")
    }
}

/// Every text file except build output. Symbolic links, and files that are not UTF-8, are skipped.
pub(super) fn text_files(root: &Path) -> Result<Vec<TextFile>> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir()? {
            let path = entry?.path();
            if path.is_symlink() || path.ends_with("target") || path.ends_with(".git") {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(root)?.to_string_lossy();
                found.push(TextFile { path: path.replace(std::path::MAIN_SEPARATOR, "/"), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(path: &str) -> bool {
        TextFile { path: path.into(), text: String::new() }.is_beside_the_product()
    }

    #[test]
    fn tests_benches_and_examples_are_beside_the_product() {
        let beside_it = "tests/a.rs toma-macros/tests/ui/b.rs benches/c.rs toma-core/src/engine/tests.rs a/src/b_tests.rs";
        let of_it =
            "src/lib.rs toma-core/src/testing.rs src/examples.rs src/contests.rs xtask/src/latest/x.rs";
        for (paths, is_beside) in [(beside_it, true), (of_it, false)] {
            paths.split(' ').for_each(|path| assert_eq!(beside(path), is_beside, "{path}"));
        }
    }

    #[test]
    fn a_walk_finds_sources_and_skips_what_is_built() {
        let scratch = crate::tests::Scratch::new("walk");
        for path in ["src/lib.rs", "target/debug/x.rs", ".git/config", ".ci/run"] {
            scratch.file(path, "");
        }
        std::fs::write(scratch.path("src/image"), b"\xff").unwrap();
        let found = text_files(scratch.root()).unwrap();
        let found: Vec<_> = found.iter().map(|file| &*file.path).collect();
        assert_eq!(found, [".ci/run", "src/lib.rs"]);
    }
}
