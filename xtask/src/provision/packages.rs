//! Python packages in a folder of their own.
//!
//! Three stages, each of which a later run skips or resumes: a virtual environment, the packages as
//! files, the packages installed. A stamp is written when all is done; without it nothing that
//! stands there is believed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use xshell::Cmd;

use super::fetch;
use super::lock::Lock;
use crate::project::Project;

/// What is to be installed, and where.
#[derive(Debug)]
pub(crate) struct Packages {
    pub(crate) root: PathBuf,
    /// For the heading.
    pub(crate) what: String,
    /// What pip is asked for.
    pub(crate) requirements: Vec<String>,
    /// Whether pip installs what they say they need.
    pub(crate) with_dependencies: bool,
    /// Room on the disk that downloading and unpacking take.
    pub(crate) megabytes: u64,
    /// Among the installed packages, what must be there when all is well.
    pub(crate) proof: PathBuf,
    /// For which Python there are such packages, for messages.
    pub(crate) python: &'static str,
    /// How to do without us, for messages.
    pub(crate) otherwise: String,
}

impl Packages {
    /// Installs what is not installed, and calls `finish` with the folder of the packages before
    /// it counts as done.
    pub(crate) fn install(&self, project: &Project, finish: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        if self.is_complete() {
            return Ok(());
        }
        fs::create_dir_all(&self.root).with_context(|| format!("cannot create {}", self.root.display()))?;
        let _lock = Lock::take(&self.root.join("lock"))?;
        // Whoever we waited for may have done it.
        if self.is_complete() { Ok(()) } else { self.make(project, finish) }
    }

    fn make(&self, project: &Project, finish: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        project.heading(&self.what);
        // What this removes may be all that stands between us and enough room.
        let _ = fs::remove_file(self.stamp());
        let _ = fs::remove_dir_all(self.temporary());
        self.check_room()?;
        self.make_venv(project)?;
        self.download(project)?;
        self.unpack(project)?;
        finish(&self.site_packages()?)?;
        fs::write(self.stamp(), self.stamp_text())?;
        // Second copies of what is installed; nobody misses them if they stay.
        let _ = fs::remove_dir_all(self.wheels());
        let _ = fs::remove_dir_all(self.temporary());
        Ok(())
    }

    pub(crate) fn is_complete(&self) -> bool {
        let stamp = fs::read_to_string(self.stamp()).is_ok_and(|stamp| stamp == self.stamp_text());
        // A folder that was emptied behind our back is no installation.
        stamp && self.proof_path().is_ok_and(|path| path.exists())
    }

    /// Where the proof stands.
    pub(crate) fn proof_path(&self) -> Result<PathBuf> {
        Ok(self.site_packages()?.join(&self.proof))
    }

    fn check_room(&self) -> Result<()> {
        let Ok(free) = fs4::available_space(&self.root) else { return Ok(()) };
        let free = (free + fetch::fetched(&self.wheels())) / 1_000_000;
        ensure!(
            free >= self.megabytes,
            "{}: {free} MB are free on this disk, {} MB are needed; make room, or set CARGO_TARGET_DIR to a \
             folder on another disk, {}",
            self.root.display(),
            self.megabytes,
            self.otherwise
        );
        Ok(())
    }

    /// A virtual environment, made anew when an installation into it was interrupted: pip cannot
    /// replace a package that is installed by half.
    fn make_venv(&self, project: &Project) -> Result<()> {
        if !self.unpacking().exists() && works(self.pip(project).arg("--version")) {
            return Ok(());
        }
        ensure!(
            works(project.command("python3").arg("--version")),
            "python3: not found; install {} with your system's package manager, {}",
            self.python,
            self.otherwise
        );
        let made = run(project.command("python3").args(["-m", "venv", "--clear"]).arg(self.venv()));
        ensure!(
            made && works(self.pip(project).arg("--version")),
            "python3 -m venv: failed; your system's package manager has venv and pip (python3-venv, python3-pip): \
             install them, {}",
            self.otherwise
        );
        Ok(())
    }

    fn download(&self, project: &Project) -> Result<()> {
        fs::create_dir_all(self.wheels())?;
        if fs::read_to_string(self.downloaded()).is_ok_and(|text| text == self.stamp_text()) {
            return Ok(());
        }
        if !self.download_by_report(project)? {
            self.download_by_pip(project)?;
        }
        Ok(fs::write(self.downloaded(), self.stamp_text())?)
    }

    /// What pip would get, it says itself: which files fit, where they are, and their checksums. Says
    /// no where it cannot, or the files are out of our reach.
    fn download_by_report(&self, project: &Project) -> Result<bool> {
        let report = self.temporary().join("report.json");
        // An old one would get all files to learn what they are called.
        let newer = self.pip(project).args(["install", "--upgrade", "pip>=25"]);
        let pip = self.pip(project).args(["install", "--dry-run", "--ignore-installed"]);
        let pip = pip.args(["--use-feature=fast-deps", "--report"]).arg(&report).args(self.arguments());
        // Their complaints are worth nothing: where this fails, pip is asked in another way, and heard.
        let quietly = |pip: Cmd<'_>| works(pip.args(["--quiet", "--retries", "1"]));
        if !(quietly(newer) && quietly(pip)) {
            return Ok(false);
        }
        let fetched = fetch::resumable(project, &self.python(), &report, &self.wheels());
        fetched.map_err(|error| anyhow!("{error}, {}", self.otherwise))
    }

    /// The packages one by one: pip keeps none of a group of which one fails, and it checks what it
    /// finds from an earlier run against the index's checksum instead of getting it again.
    fn download_by_pip(&self, project: &Project) -> Result<()> {
        for requirement in &self.requirements {
            let pip = self.pip(project).args(["download", "--dest"]).arg(self.wheels());
            ensure!(
                run(pip.args(self.dependency_args()).arg(requirement)),
                "pip could not get `{requirement}`, see above: it needs a network, or an index that pip is set up for, \
                 and {}; run the same command again, {}",
                self.python,
                self.otherwise
            );
        }
        Ok(())
    }

    fn unpack(&self, project: &Project) -> Result<()> {
        fs::write(self.unpacking(), "")?;
        let pip = self.pip(project).args(["install", "--no-index", "--no-compile", "--force-reinstall"]);
        let pip = pip.arg("--find-links").arg(self.wheels()).args(self.arguments());
        if !run(pip) {
            // The next run looks at each file again.
            let _ = fs::remove_file(self.downloaded());
            bail!("pip could not unpack what it had downloaded into {}, see above", self.root.display());
        }
        Ok(fs::remove_file(self.unpacking())?)
    }

    fn arguments(&self) -> Vec<&str> {
        self.dependency_args().into_iter().chain(self.requirements.iter().map(String::as_str)).collect()
    }

    fn dependency_args(&self) -> Option<&'static str> {
        (!self.with_dependencies).then_some("--no-deps")
    }

    /// lib/python3.N/site-packages: which N is the user's choice.
    fn site_packages(&self) -> Result<PathBuf> {
        let folders = folders_in(&self.venv().join("lib"))?;
        let mut folders = folders.into_iter().map(|folder| folder.join("site-packages"));
        folders
            .find(|folder| folder.is_dir())
            .with_context(|| format!("no packages in {}", self.venv().display()))
    }

    fn pip<'a>(&self, project: &'a Project) -> Cmd<'a> {
        let pip =
            project.command(self.python()).args(["-m", "pip"]).env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        // Downloads pass through it, and the system's own may be small.
        let _ = fs::create_dir_all(self.temporary());
        let pip = pip.env("TMPDIR", self.temporary());
        if project.plain { pip.env("PIP_PROGRESS_BAR", "off") } else { pip }
    }

    /// The interpreter of the virtual environment.
    pub(crate) fn python(&self) -> PathBuf {
        self.venv().join("bin/python")
    }

    fn venv(&self) -> PathBuf {
        self.root.join("venv")
    }

    fn wheels(&self) -> PathBuf {
        self.root.join("wheels")
    }

    /// There when all files are.
    fn downloaded(&self) -> PathBuf {
        self.wheels().join("complete")
    }

    fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// There while pip installs.
    fn unpacking(&self) -> PathBuf {
        self.root.join("unpacking")
    }

    fn stamp(&self) -> PathBuf {
        self.root.join("stamp")
    }

    fn stamp_text(&self) -> String {
        self.requirements.join("\n") + "\n"
    }
}

pub(crate) fn folders_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

/// Runs it, and shows what it says; not on our standard output, where `cargo xtask torch` has an
/// answer for shells.
fn run(command: Cmd<'_>) -> bool {
    eprintln!("$ {command}");
    Command::from(command).stdout(io::stderr()).status().is_ok_and(|status| status.success())
}

fn works(command: Cmd<'_>) -> bool {
    command.quiet().ignore_stdout().ignore_stderr().run().is_ok()
}

#[cfg(test)]
mod tests;
