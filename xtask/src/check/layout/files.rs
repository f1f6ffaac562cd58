//! The files of the repository.

use std::path::Path;

use anyhow::Result;

use crate::project::Project;

/// A file of the repository that is text.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// From the root of the repository, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    /// Whether a folder of that name is on its path.
    pub(crate) fn is_under(&self, folder: &str) -> bool {
        self.path.rsplit('/').skip(1).any(|name| name == folder)
    }

    /// Whether it only serves to test or to show what is shipped.
    pub(crate) fn is_beside_the_product(&self) -> bool {
        ["tests", "benches", "examples"].iter().any(|folder| self.is_under(folder))
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("_tests.rs")
    }
}

/// Every text file that git knows or would add; without git, every one that is not built.
pub(crate) fn text_files(project: &Project) -> Result<Vec<TextFile>> {
    let root = &project.workspace.root;
    let mut paths = git_files(project).map_or_else(|| walk(root), Ok)?;
    paths.sort();
    let read = |path: String| {
        // Links, deleted files and files that are not UTF-8 have no text of ours.
        let text = std::fs::read_to_string(root.join(&path)).ok()?;
        Some(TextFile { path, text })
    };
    Ok(paths.into_iter().filter_map(read).collect())
}

fn git_files(project: &Project) -> Option<Vec<String>> {
    // Build machines often check out as somebody else, which git refuses without `safe.directory`.
    let git = project.command("git").args(["-c", "safe.directory=*", "ls-files", "-z"]);
    let git = git.args(["--cached", "--others", "--exclude-standard"]);
    let names = git.quiet().ignore_stderr().read().ok()?;
    Some(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path) -> Result<Vec<String>> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir()? {
            let path = entry?.path();
            if path.is_dir() {
                let is_source = !path.is_symlink() && !path.ends_with("target") && !path.ends_with(".git");
                open.extend(is_source.then_some(path));
            } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
                found.push(name.replace(std::path::MAIN_SEPARATOR, "/"));
            }
        }
    }
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
        for path in [
            "tests/a.rs",
            "toma-macros/tests/ui/b.rs",
            "benches/c.rs",
            "toma-core/src/engine/tests.rs",
            "a/src/b_tests.rs",
        ] {
            assert!(beside(path), "{path}");
        }
        for path in [
            "src/lib.rs",
            "toma-core/src/testing.rs",
            "src/examples.rs",
            "src/contests.rs",
            "xtask/src/latest/x.rs",
        ] {
            assert!(!beside(path), "{path}");
        }
    }

    #[test]
    fn a_walk_finds_sources_and_skips_what_is_built() {
        let scratch = crate::tests::Scratch::new("walk");
        for path in ["src/lib.rs", "target/debug/x.rs", ".git/config", ".ci/run"] {
            scratch.file(path, "");
        }
        let mut found = walk(scratch.root()).unwrap();
        found.sort();
        assert_eq!(found, [".ci/run", "src/lib.rs"]);
    }
}
