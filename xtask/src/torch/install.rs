//! Takes libtorch out of the PyTorch package, into `libtorch` in the target folder.
//!
//! Three stages, each of which a later run skips or resumes: a virtual environment, the packages as
//! files, the packages installed. A stamp is written when all is done; without it nothing that
//! stands there is believed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use xshell::Cmd;

use super::environment::Environment;
use super::packages::{Build, PYTHONS, VERSION, is_ours, version_in};
use crate::project::Project;

/// How to do without us.
const OTHERWISE: &str = "or set LIBTORCH to the folder of a libtorch you have";

/// A finished installation, or one in the making.
#[derive(Debug)]
pub(super) struct Installation {
    root: PathBuf,
    build: Build,
}

/// The installation, made now when there is none.
pub(super) fn installed(project: &Project, build: Build) -> Result<Installation> {
    let root = project.workspace.target_dir.join("libtorch").join(build.folder());
    let installation = Installation { root, build };
    if !installation.is_complete() {
        ensure!(
            cfg!(target_os = "linux"),
            "libtorch {VERSION}: can be installed by us on Linux alone; set LIBTORCH to the folder of one you have"
        );
        installation.make(project)?;
    }
    Ok(installation)
}

impl Installation {
    pub(super) fn environment(&self) -> Environment {
        let libraries = match self.build {
            Build::Cpu => vec![self.libtorch().join("lib"), self.root.join("runtime")],
            // Its libraries find all others relative to themselves.
            Build::Cuda => vec![self.libtorch().join("lib")],
        };
        Environment::new(self.libtorch(), libraries)
    }

    fn is_complete(&self) -> bool {
        let stamp = fs::read_to_string(self.stamp()).is_ok_and(|stamp| stamp == self.build.stamp());
        // `exists` follows links: a folder that was emptied behind our back is no installation.
        stamp && self.libtorch().join("lib/libtorch_cpu.so").exists()
    }

    fn make(&self, project: &Project) -> Result<()> {
        project.heading(&format!(
            "libtorch {VERSION}, {} build, into {}",
            self.build.name(),
            self.root.display()
        ));
        fs::create_dir_all(&self.root).with_context(|| format!("cannot create {}", self.root.display()))?;
        self.make_venv(project)?;
        self.download(project)?;
        self.unpack(project)?;
        self.link()?;
        fs::write(self.stamp(), self.build.stamp())?;
        // A second copy of what is installed; nobody misses it if it stays.
        let _ = fs::remove_dir_all(self.wheels());
        Ok(())
    }

    /// A virtual environment, so that nothing of the user's Python is touched.
    fn make_venv(&self, project: &Project) -> Result<()> {
        if works(self.pip(project).arg("--version")) {
            return Ok(());
        }
        ensure!(
            works(project.command("python3").arg("--version")),
            "python3: not found; libtorch comes as a Python package: install Python {PYTHONS}, {OTHERWISE}"
        );
        let made = project.command("python3").args(["-m", "venv", "--clear"]).arg(self.venv()).run();
        made.ok().filter(|()| works(self.pip(project).arg("--version"))).with_context(|| {
            format!(
                "python3 -m venv: failed; your system's package manager has venv and pip \
                 (python3-venv, python3-pip): install them, {OTHERWISE}"
            )
        })
    }

    /// The packages one by one: pip keeps none of a group of which one fails, and it checks what it
    /// finds from an earlier run against the index's checksum instead of getting it again.
    fn download(&self, project: &Project) -> Result<()> {
        for requirement in self.build.requirements() {
            let pip = self.pip(project).args(["download", "--dest"]).arg(self.wheels());
            if pip.args(self.build.pip_args()).arg(&requirement).run().is_err() {
                bail!(
                    "pip could not get `{requirement}`: it needs a network and Python {PYTHONS}; \
                     make both so and run the same command again, {OTHERWISE}"
                );
            }
        }
        Ok(())
    }

    /// Installed anew whatever is there: an interrupted installation looks like a whole one to pip.
    fn unpack(&self, project: &Project) -> Result<()> {
        let pip = self.pip(project).args(["install", "--no-index", "--no-compile", "--force-reinstall"]);
        let pip = pip.arg("--find-links").arg(self.wheels()).args(self.build.pip_args());
        pip.args(self.build.requirements()).run().context("pip could not unpack what it had downloaded")?;
        self.check_version()
    }

    fn check_version(&self) -> Result<()> {
        let text = fs::read_to_string(self.site_packages()?.join("torch/version.py"))?;
        let version = version_in(&text).context("torch/version.py: states no version")?;
        ensure!(is_ours(version), "pip installed libtorch {version}, {VERSION} is needed");
        Ok(())
    }

    /// A folder of links as torch-sys expects it.
    ///
    /// For the CPU `libtorch.so` is `libtorch_cpu.so`: the true one would load CUDA's libraries,
    /// which are not there, and torch-sys would link what it sees of them.
    fn link(&self) -> Result<()> {
        let packages = self.site_packages()?;
        if self.build == Build::Cuda {
            return replace_link(&packages.join("torch"), &self.libtorch());
        }
        let lib = self.libtorch().join("lib");
        fs::create_dir_all(&lib)?;
        let torch = packages.join("torch");
        replace_link(&torch.join("include"), &self.libtorch().join("include"))?;
        for (name, file) in [
            ("libc10.so", "libc10.so"),
            ("libtorch_cpu.so", "libtorch_cpu.so"),
            ("libtorch.so", "libtorch_cpu.so"),
            ("libgomp.so.1", "libgomp.so.1"),
        ] {
            replace_link(&torch.join("lib").join(file), &lib.join(name))?;
        }
        fs::write(self.libtorch().join("build-version"), VERSION)?;
        replace_link(&runtime_folder(&packages)?, &self.root.join("runtime"))
    }

    fn site_packages(&self) -> Result<PathBuf> {
        // lib/python3.N/site-packages: which N is the user's choice.
        let mut folders =
            folders_in(&self.venv().join("lib"))?.into_iter().map(|folder| folder.join("site-packages"));
        folders.find(|folder| folder.join("torch").is_dir()).context("pip installed no torch")
    }

    fn pip<'a>(&self, project: &'a Project) -> Cmd<'a> {
        let pip = project.command(self.venv().join("bin/python")).args(["-m", "pip"]);
        pip.env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    }

    fn venv(&self) -> PathBuf {
        self.root.join("venv")
    }

    fn wheels(&self) -> PathBuf {
        self.root.join("wheels")
    }

    fn libtorch(&self) -> PathBuf {
        self.root.join("libtorch")
    }

    fn stamp(&self) -> PathBuf {
        self.root.join("stamp")
    }
}

/// Where NVIDIA's packages put their libraries: `nvidia/cu13/lib`, or whatever the next calls it.
fn runtime_folder(packages: &Path) -> Result<PathBuf> {
    let mut folders = folders_in(&packages.join("nvidia"))?.into_iter().map(|folder| folder.join("lib"));
    let is_runtime = |folder: &PathBuf| {
        ["libcudart.so.13", "libcupti.so.13"].iter().all(|name| folder.join(name).exists())
    };
    folders.find(is_runtime).context("the packages of NVIDIA have no libcudart.so.13 and libcupti.so.13")
}

fn folders_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

fn replace_link(to: &Path, at: &Path) -> Result<()> {
    if at.symlink_metadata().is_ok() {
        fs::remove_file(at).with_context(|| format!("cannot replace {}", at.display()))?;
    }
    symlink(to, at).with_context(|| format!("cannot link {} to {}", at.display(), to.display()))
}

#[cfg(unix)]
fn symlink(to: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(to, at)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

fn works(command: Cmd<'_>) -> bool {
    command.quiet().ignore_stdout().ignore_stderr().run().is_ok()
}

#[cfg(test)]
mod tests;
