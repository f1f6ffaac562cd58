//! Python packages in a folder of their own.
//!
//! pip downloads and installs them in one go, resumes what a connection breaks off, and compares every file
//! with the checksums in this repository. A stamp is written when all is done. Without it the folder is made
//! anew; files that an interrupted run had whole come from pip's cache in that folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context as _, Result, ensure};
use xshell::Cmd;

use super::Lock;
use crate::project::Project;

/// The pip that installs all others: it resumes downloads.
pub(super) const PIP: &str = include_str!("requirements/pip.txt");

/// What is to be installed, and where.
#[derive(Debug)]
pub(crate) struct Packages {
    pub(crate) root: PathBuf,
    /// For the heading.
    pub(crate) what: String,
    /// Every package with its version and the checksums of its files, as pip reads them.
    pub(crate) requirements: String,
    /// Room on the disk that downloading and unpacking take.
    pub(crate) megabytes: u64,
    /// Among the installed packages, what must be there when all is well.
    pub(crate) proof: PathBuf,
    /// For which Python there are such packages, for messages.
    pub(crate) python: &'static str,
    /// How to do without an installation, for messages.
    pub(crate) otherwise: String,
}

impl Packages {
    /// Installs what is not installed, and calls `finish` with the folder of the packages before
    /// it counts as done.
    pub(crate) fn install(&self, project: &Project, finish: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.install_with(PIP, project, finish)
    }

    fn install_with<F>(&self, pip: &str, project: &Project, finish: F) -> Result<()>
    where
        F: FnOnce(&Path) -> Result<()>,
    {
        if self.is_complete() {
            return Ok(());
        }
        fs::create_dir_all(&self.root).with_context(|| format!("cannot create {}", self.root.display()))?;
        let _lock = Lock::take(&self.root.join("lock"))?;
        // Another process may have done it in the meantime.
        if self.is_complete() {
            return Ok(());
        }
        project.heading(&self.what);
        // A stamp of other packages, which would be wrong from here on.
        let _ = fs::remove_file(self.stamp());
        self.check_room()?;
        self.make_venv(project)?;
        for requirements in [pip, &self.requirements] {
            self.run_pip(project, requirements)?;
        }
        finish(&self.site_packages()?)?;
        fs::write(self.stamp(), &self.requirements)?;
        // Second copies of what is installed; they do no harm if they stay.
        let _ = fs::remove_dir_all(self.cache());
        Ok(())
    }

    pub(crate) fn is_complete(&self) -> bool {
        let stamp = fs::read_to_string(self.stamp()).is_ok_and(|stamp| stamp == self.requirements);
        // A folder that was emptied by hand is no installation.
        stamp && self.proof_path().is_ok_and(|path| path.exists())
    }

    /// Where the proof stands.
    pub(crate) fn proof_path(&self) -> Result<PathBuf> {
        Ok(self.site_packages()?.join(&self.proof))
    }

    fn check_room(&self) -> Result<()> {
        let Ok(free) = fs4::available_space(&self.root) else { return Ok(()) };
        ensure!(
            free / 1_000_000 >= self.megabytes,
            "{}: {} MB are free on this disk, {} MB are needed; make room, or set CARGO_TARGET_DIR to a \
             folder on another disk, {}",
            self.root.display(),
            free / 1_000_000,
            self.megabytes,
            self.otherwise
        );
        Ok(())
    }

    /// A new virtual environment: pip cannot replace a package that is installed by half.
    fn make_venv(&self, project: &Project) -> Result<()> {
        ensure!(
            project.has("python3"),
            "python3: not found; install {} with your system's package manager, {}",
            self.python,
            self.otherwise
        );
        ensure!(
            run(project.command("python3").args(["-m", "venv", "--clear"]).arg(self.venv())),
            "python3 -m venv: failed; your system's package manager has venv and pip (python3-venv, python3-pip): \
             install them, {}",
            self.otherwise
        );
        Ok(())
    }

    /// Without the dependencies that packages state: the list is whole, and some are gigabytes for a GPU.
    fn run_pip(&self, project: &Project, requirements: &str) -> Result<()> {
        let list = self.root.join("requirements.txt");
        fs::write(&list, requirements)?;
        let pip = project.command(self.python()).args(["-m", "pip", "install", "--no-deps", "--no-compile"]);
        let pip = pip.args(["--require-hashes", "--only-binary", ":all:", "--requirement"]).arg(list);
        let pip = pip.env("PIP_CACHE_DIR", self.cache()).env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        // Downloads pass through it, and the system's own may be small.
        let temporary = self.cache().join("tmp");
        fs::create_dir_all(&temporary)?;
        let pip = pip.env("TMPDIR", temporary);
        // Variables, because a pip that does not know an option yet passes over them.
        let pip = pip.env("PIP_RESUME_RETRIES", "20");
        ensure!(
            run(if project.plain { pip.env("PIP_PROGRESS_BAR", "off") } else { pip }),
            "pip could not install {}, see above: it needs a network, or an index that pip is set up for, and {}; \
             run the same command again, {}",
            self.what,
            self.python,
            self.otherwise
        );
        Ok(())
    }

    /// lib/python3.N/site-packages: which N is the user's choice.
    fn site_packages(&self) -> Result<PathBuf> {
        let lib = self.venv().join("lib");
        let found = fs::read_dir(&lib).with_context(|| format!("cannot read {}", lib.display()))?;
        let mut folders = found.filter_map(|entry| Some(entry.ok()?.path().join("site-packages")));
        folders.find(|folder| folder.is_dir()).with_context(|| format!("no packages in {}", lib.display()))
    }

    /// The interpreter of the virtual environment.
    pub(crate) fn python(&self) -> PathBuf {
        self.venv().join("bin/python")
    }

    fn venv(&self) -> PathBuf {
        self.root.join("venv")
    }

    fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    fn stamp(&self) -> PathBuf {
        self.root.join("stamp")
    }
}

/// Runs it, and shows what it says; not on our standard output, where `cargo xtask torch` has an
/// answer for shells.
fn run(command: Cmd<'_>) -> bool {
    eprintln!("$ {command}");
    Command::from(command).stdout(io::stderr()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests;
