//! Takes libtorch out of the PyTorch package, into `libtorch` in the target folder.
//!
//! # Why
//!
//! The PyTorch package is a CUDA build, and holds libtorch. For the CPU, a folder of links shows torch-sys
//! the CPU's part alone. So gigabytes of CUDA libraries are neither downloaded nor linked.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;
#[cfg(windows)]
use std::os::windows::fs::symlink_file as symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::build::Build;
use super::environment::Environment;
use super::version::{PYTHON, VERSION};
use crate::project::Project;
use crate::setup::Packages;

/// An installation, finished or in the making.
#[derive(Debug)]
struct Installation {
    root: PathBuf,
    build: Build,
}

/// The installation's variables; it is made now when there is none.
pub(super) fn environment(project: &Project, build: Build) -> Result<Environment> {
    let folder = format!("libtorch/{}-{VERSION}", build.name());
    let installation = Installation { root: project.workspace.target_dir.join(folder), build };
    let packages = installation.packages();
    ensure!(
        cfg!(target_os = "linux") || packages.is_complete(),
        "libtorch {VERSION}: can be installed by us on Linux alone; set LIBTORCH to the folder of one you have"
    );
    packages.install(project, |packages| installation.link(packages))?;
    Ok(installation.environment())
}

impl Installation {
    fn packages(&self) -> Packages {
        Packages {
            root: self.root.clone(),
            what: format!(
                "libtorch {VERSION}, {} build, to build with, into {}",
                self.build.name(),
                self.root.display()
            ),
            requirements: self.build.requirements(),
            megabytes: if self.build == Build::Cpu { 2_000 } else { 8_000 },
            proof: "torch/lib/libtorch_cpu.so".into(),
            python: PYTHON,
            otherwise: format!("or set LIBTORCH to the folder of a libtorch {VERSION} you have"),
        }
    }

    fn environment(&self) -> Environment {
        let mut libraries = vec![self.libtorch().join("lib")];
        // Those of the other build find all others relative to themselves.
        libraries.extend((self.build == Build::Cpu).then(|| self.root.join("runtime")));
        let what = format!("{VERSION}, {} build", self.build.name());
        Environment { what, named: vec![("LIBTORCH", self.libtorch())], libraries }
    }

    /// A folder of links as torch-sys expects it.
    ///
    /// For the CPU `libtorch.so` is `libtorch_cpu.so`: the true one would load CUDA's libraries,
    /// which are not there, and torch-sys would link what it sees of them.
    fn link(&self, packages: &Path) -> Result<()> {
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
        replace_link(&packages.join("nvidia/cu13/lib"), &self.root.join("runtime"))
    }

    fn libtorch(&self) -> PathBuf {
        self.root.join("libtorch")
    }
}

fn replace_link(to: &Path, at: &Path) -> Result<()> {
    if at.symlink_metadata().is_ok() {
        fs::remove_file(at).with_context(|| format!("cannot replace {}", at.display()))?;
    }
    symlink(to, at).with_context(|| format!("cannot link {} to {}", at.display(), to.display()))
}

#[cfg(test)]
mod tests;
