//! Extracts libtorch from the PyTorch package, into `libtorch` in the target folder.
//!
//! # Why
//!
//! The PyTorch package is a CUDA build, and holds libtorch. For the CPU, torch-sys sees only the CPU part, through a
//! folder of links. So gigabytes of CUDA libraries are neither downloaded nor linked.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;
#[cfg(windows)]
use std::os::windows::fs::symlink_file as symlink;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::environment::Environment;
use crate::project::Project;
use crate::setup::Packages;

/// The libtorch that tch 0.24 is made for.
const VERSION: &str = "2.11.0";

/// The two builds of libtorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// Linked only against the CPU part: 540 MB to download.
    Cpu,
    /// With all libraries for a GPU: 2.7 GB to download.
    Cuda,
}

impl Build {
    /// The name of the option that requests it.
    pub(crate) fn name(self) -> &'static str {
        if self == Self::Cuda { "cuda" } else { "cpu" }
    }

    /// The package `torch` is a CUDA build. Its CPU part needs only the two libraries that its profiler is linked
    /// with.
    fn requirements(self) -> String {
        let cpu = include_str!("../requirements/libtorch.txt");
        let more = if self == Self::Cuda { include_str!("../requirements/libtorch-cuda.txt") } else { "" };
        cpu.to_owned() + more
    }

    /// The build for this machine: the one for GPUs if the loader finds NVIDIA's driver.
    pub(super) fn of_this_machine(project: &Project) -> Self {
        // Only the loader knows all search paths.
        let load = project.command("python3").args(["-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"]);
        let is_there = load.quiet().ignore_stdout().ignore_stderr().run().is_ok();
        if is_there { Self::Cuda } else { Self::Cpu }
    }

    /// Creates a folder of links in `root`, with the layout that torch-sys expects, to the files that pip has put into
    /// `packages`.
    ///
    /// For the CPU `libtorch.so` is `libtorch_cpu.so`: the real one would load CUDA's libraries, which are missing, and
    /// torch-sys would link those that it sees.
    fn link(self, root: &Path, packages: &Path) -> Result<()> {
        let (torch, libtorch) = (packages.join("torch"), root.join("libtorch"));
        if self == Self::Cuda {
            return replace_link(&torch, &libtorch);
        }
        fs::create_dir_all(libtorch.join("lib"))?;
        for (name, file) in [
            ("include", "include"),
            ("lib/libc10.so", "lib/libc10.so"),
            ("lib/libtorch_cpu.so", "lib/libtorch_cpu.so"),
            ("lib/libtorch.so", "lib/libtorch_cpu.so"),
            ("lib/libgomp.so.1", "lib/libgomp.so.1"),
        ] {
            replace_link(&torch.join(file), &libtorch.join(name))?;
        }
        fs::write(libtorch.join("build-version"), VERSION)?;
        replace_link(&packages.join("nvidia/cu13/lib"), &root.join("runtime"))
    }
}

/// The variables of the installation, which is made now if it is missing.
pub(super) fn environment(project: &Project, build: Build) -> Result<Environment> {
    ensure!(
        cfg!(target_os = "linux"),
        "libtorch {VERSION} can be installed on Linux only; set LIBTORCH to the folder of one you have"
    );
    let root = project.workspace.target_dir.join(format!("libtorch/{}-{VERSION}", build.name()));
    let otherwise = format!("or set LIBTORCH to the folder of a libtorch {VERSION} you have");
    let packages = Packages { root: root.clone(), requirements: build.requirements(), otherwise };
    packages.install(project, &|packages| build.link(&root, packages))?;
    let mut libraries = vec![root.join("libtorch/lib")];
    // The libraries of the CUDA build find all others relative to themselves.
    libraries.extend((build == Build::Cpu).then(|| root.join("runtime")));
    let description = format!("{VERSION}, {} build", build.name());
    Ok(Environment { description, libtorch: Some(root.join("libtorch")), libraries })
}

fn replace_link(to: &Path, at: &Path) -> Result<()> {
    if at.symlink_metadata().is_ok() {
        fs::remove_file(at).with_context(|| format!("cannot replace {}", at.display()))?;
    }
    symlink(to, at).with_context(|| format!("cannot link {} to {}", at.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn the_folder_of_links_shows_the_cpu_part_alone() {
        let scratch = Scratch::new("links");
        for library in ["libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_cuda.so", "libgomp.so.1"] {
            scratch.file(&format!("packages/torch/lib/{library}"), library);
        }
        scratch.file("packages/torch/include/c10/x.h", "");
        scratch.file("packages/nvidia/cu13/lib/libcudart.so.13", "libcudart.so.13");
        // Twice, because a run after an interrupted one must accept the existing links.
        for _ in 0..2 {
            Build::Cpu.link(scratch.root(), &scratch.path("packages")).unwrap();
        }
        let read = |name: &str| fs::read_to_string(scratch.path(name)).unwrap();
        assert_eq!(read("libtorch/lib/libtorch.so"), "libtorch_cpu.so");
        assert_eq!(read("libtorch/build-version"), VERSION);
        assert_eq!(read("runtime/libcudart.so.13"), "libcudart.so.13");
        assert!(scratch.path("libtorch/include/c10/x.h").exists());
        assert!(!scratch.path("libtorch/lib/libtorch_cuda.so").exists());
    }
}
