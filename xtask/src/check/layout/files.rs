//! The files of the repository.

use std::fs;

use anyhow::Result;

use crate::project::Project;

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
    pub(super) fn is_not_shipped(&self) -> bool {
        ["tests", "benches", "examples"].iter().any(|folder| self.is_under(folder))
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("_tests.rs")
    }
}

/// Every text file of the repository. Symbolic links, and files that are not UTF-8, are skipped.
pub(super) fn text_files(project: &Project) -> Result<Vec<TextFile>> {
    let text = |path: String| {
        let file = project.workspace.root.join(&path);
        let text = (!file.is_symlink()).then(|| fs::read_to_string(&file).ok())??;
        Some(TextFile { path, text })
    };
    Ok(project.files(".")?.into_iter().filter_map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    fn is_not_shipped(path: &str) -> bool {
        TextFile { path: path.into(), text: String::new() }.is_not_shipped()
    }

    #[test]
    fn tests_benches_and_examples_are_not_shipped() {
        let others = "tests/a.rs toma-macros/tests/ui/b.rs benches/c.rs toma-core/src/engine/tests.rs a/src/b_tests.rs";
        let shipped =
            "src/lib.rs toma-core/src/testing.rs src/examples.rs src/contests.rs xtask/src/latest/x.rs";
        for (paths, expected) in [(others, true), (shipped, false)] {
            paths.split(' ').for_each(|path| assert_eq!(is_not_shipped(path), expected, "{path}"));
        }
    }

    #[test]
    fn texts_are_found_unless_they_are_ignored_deleted_or_linked() {
        let (mut project, scratch) = (Project::find().unwrap(), Scratch::new("walk"));
        project.workspace.root = scratch.root().to_owned();
        project.shell.change_dir(scratch.root());
        // A hook of git sets both for the repository that it runs in.
        project.shell.set_var("GIT_DIR", scratch.path(".git"));
        project.shell.set_var("GIT_INDEX_FILE", scratch.path(".git/index"));
        for path in ["src/lib.rs", "target/debug/x.rs", ".ci/run", "ü.md", "deleted"] {
            scratch.file(path, "");
        }
        scratch.file(".gitignore", "/target\n");
        fs::write(scratch.path("src/image"), b"\xff").unwrap();
        std::os::unix::fs::symlink("lib.rs", scratch.path("src/link.rs")).unwrap();
        project.command("git").args(["init", "--quiet"]).quiet().run().unwrap();
        project.command("git").args(["add", "deleted", ".ci"]).quiet().run().unwrap();
        fs::remove_file(scratch.path("deleted")).unwrap();
        let found = text_files(&project).unwrap();
        let found: Vec<_> = found.iter().map(|file| &*file.path).collect();
        assert_eq!(found, [".ci/run", ".gitignore", "src/lib.rs", "ü.md"]);
    }
}
