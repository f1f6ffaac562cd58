//! Python packages in a folder of their own.
//!
//! pip compares every file with the checksums in this repository, and resumes broken downloads. A stamp is written when
//! everything is installed; without the stamp everything is installed anew.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use xshell::Cmd;

use crate::project::Project;

/// The pip that installs all others: it resumes downloads.
const PIP: &str = include_str!("requirements/pip.txt");

/// Work on the installed packages that must succeed before they count as installed.
type Finish<'a> = &'a dyn Fn(&Path) -> Result<()>;

/// Packages with the folder that they are installed into.
#[derive(Debug)]
pub(crate) struct Packages {
    pub(crate) root: PathBuf,
    /// Every package with its version and the checksums of its files, in pip's format.
    pub(crate) requirements: String,
    /// Alternative to an installation, for messages.
    pub(crate) otherwise: String,
}

impl Packages {
    /// Installs missing packages, calls `finish` with the folder of the packages before they count as installed, and
    /// returns that folder.
    pub(crate) fn install(&self, project: &Project, finish: Finish<'_>) -> Result<PathBuf> {
        self.install_lists(&[PIP, &self.requirements], project, finish)
    }

    fn install_lists(&self, lists: &[&str], project: &Project, finish: Finish<'_>) -> Result<PathBuf> {
        let (root, otherwise) = (self.root.display(), &self.otherwise);
        stamped(&self.root, &self.requirements, || {
            project.heading(&format!("install {}, into {root}", names(&self.requirements)));
            // A new environment, because pip cannot replace a partly installed package.
            let venv = project.command("python3").args(["-m", "venv", "--clear"]).arg(self.venv());
            let is_installed = run(venv) && lists.iter().all(|list| self.pip(project, list).is_ok_and(run));
            ensure!(
                is_installed,
                "cannot install into {root}, see above: this needs Python 3.10 to 3.14 with venv and pip, a network \
                 and free space on the disk; run the same command again, {otherwise}"
            );
            finish(&self.packages()?)
        })?;
        self.packages()
    }

    /// Ignores the dependencies that packages declare: the list is complete, and some of them are gigabytes for a GPU.
    fn pip<'a>(&self, project: &'a Project, requirements: &str) -> Result<Cmd<'a>> {
        let list = self.root.join("requirements.txt");
        fs::write(&list, requirements)?;
        let pip = project.command(self.venv().join("bin/python"));
        let pip = pip.args(["-m", "pip", "install", "--no-deps", "--no-compile"]);
        let pip = pip.args(["--no-cache-dir", "--require-hashes", "--only-binary=:all:", "--requirement"]);
        let pip = pip.arg(list);
        // Downloads pass through the temporary folder, and the system's own may be small.
        let pip = pip.env("TMPDIR", &self.root).env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        // A variable, because a pip that does not know the option ignores it.
        Ok(pip.env("PIP_RESUME_RETRIES", "20"))
    }

    /// Path of lib/python3.N/site-packages; N depends on the user's Python.
    fn packages(&self) -> Result<PathBuf> {
        let lib = self.venv().join("lib");
        let found = fs::read_dir(&lib).with_context(|| format!("cannot read {}", lib.display()))?;
        let mut folders = found.filter_map(|entry| Some(entry.ok()?.path().join("site-packages")));
        folders.find(|folder| folder.is_dir()).with_context(|| format!("no packages in {}", lib.display()))
    }

    fn venv(&self) -> PathBuf {
        self.root.join("venv")
    }
}

/// Makes the content of a folder, unless the folder has a stamp of this text. Other processes wait meanwhile.
pub(crate) fn stamped(root: &Path, text: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
    let (shown, stamp) = (root.display(), root.join("stamp"));
    fs::create_dir_all(root).with_context(|| format!("cannot create {shown}"))?;
    let lock = File::create(root.join("lock"))?;
    // By its full name: files have a method of this name from Rust 1.89 on.
    fs4::FileExt::lock(&lock).with_context(|| format!("cannot lock {shown}"))?;
    if !fs::read_to_string(&stamp).is_ok_and(|old| old == text) {
        // Removes a stamp of other content, which would be wrong from here on.
        let _ = fs::remove_file(&stamp);
        make()?;
        fs::write(stamp, text)?;
    }
    Ok(())
}

/// The packages of a list, with their versions.
fn names(requirements: &str) -> String {
    let lines = requirements.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()).collect::<Vec<_>>().join(", ")
}

/// Runs the command and shows its output on standard error, because the standard output of `cargo xtask torch` is for
/// shells.
pub(crate) fn run(command: Cmd<'_>) -> bool {
    eprintln!("$ {command}");
    Command::from(command).stdout(io::stderr()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;
    use crate::tests::Scratch;

    /// Creates a package that pip accepts from a folder, and prints its checksum.
    const WHEEL: &str = "import hashlib, sys, zipfile\n\
        with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n\
        \x20   wheel.writestr('a_model/weights', 'real')\n\
        \x20   info = 'a_model-1.0.dist-info'\n\
        \x20   wheel.writestr(info + '/METADATA', 'Metadata-Version: 2.1\\nName: a-model\\nVersion: 1.0\\n')\n\
        \x20   wheel.writestr(info + '/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        \x20   wheel.writestr(info + '/RECORD', '')\n\
        print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())\n";

    #[test]
    fn a_file_with_its_checksum_is_installed_and_another_is_not() {
        let (project, scratch) = (Project::find().unwrap(), Scratch::new("packages"));
        project.shell.set_var("PIP_NO_INDEX", "1");
        project.shell.set_var("PIP_FIND_LINKS", scratch.root());
        let wheel = scratch.path("a_model-1.0-py3-none-any.whl");
        let checksum = project.command("python3").args(["-c", WHEEL]).arg(wheel).read().unwrap();
        let install = |checksum: &str, finish: Finish<'_>| {
            let requirements = format!("a-model==1.0 --hash=sha256:{checksum}\n");
            let packages =
                Packages { root: scratch.path("a"), requirements, otherwise: "or do without".to_owned() };
            packages.install_lists(&[&packages.requirements], &project, finish)
        };
        let error = install(&"0".repeat(64), &|_| panic!("installed")).unwrap_err().to_string();
        assert!(error.starts_with("cannot install into ") && error.ends_with("or do without"), "{error}");
        assert_eq!(install(&checksum, &|_| bail!("not finished")).unwrap_err().to_string(), "not finished");
        let folder = install(&checksum, &|_| Ok(())).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a_model/weights")).unwrap(), "real");
        assert_eq!(install(&checksum, &|_| panic!("it is installed already")).unwrap(), folder);
    }
}
