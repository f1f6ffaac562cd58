//! The two builds of libtorch, and the Python packages they are made of.

use std::path::Path;

use super::version::VERSION;
use crate::project::Project;

/// Which libtorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// Linked against the CPU's part alone: 540 MB to download.
    Cpu,
    /// With everything a GPU needs: 2.7 GB to download.
    Cuda,
}

impl Build {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }

    /// The name of its folder.
    pub(super) fn folder(self) -> String {
        format!("{}-{VERSION}", self.name())
    }

    /// What pip is asked for, small packages first: what is wrong shows early.
    ///
    /// The package is a CUDA build. Its CPU part needs only the two libraries that its profiler
    /// is linked with, so for the CPU pip must not follow the dependencies.
    pub(super) fn requirements(self) -> Vec<String> {
        let runtime = ["nvidia-cuda-runtime==13.0.*", "nvidia-cuda-cupti==13.0.*"];
        let runtime: &[&str] = if self == Self::Cpu { &runtime } else { &[] };
        runtime.iter().map(|&name| name.to_owned()).chain([format!("torch=={VERSION}")]).collect()
    }

    /// Whether pip is to follow the dependencies.
    pub(super) fn with_dependencies(self) -> bool {
        self == Self::Cuda
    }

    /// Room that downloads and what comes of them take together.
    pub(super) fn megabytes(self) -> u64 {
        match self {
            Self::Cpu => 2_000,
            Self::Cuda => 8_000,
        }
    }

    /// The build this machine can make use of.
    pub(super) fn of_this_machine(project: &Project) -> Self {
        if has_nvidia_driver(project) { Self::Cuda } else { Self::Cpu }
    }
}

fn has_nvidia_driver(project: &Project) -> bool {
    // The library may be there without the folder, in containers and under Windows, and only the
    // loader knows all places to look in.
    let load = project.command("python3").args(["-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"]);
    cfg!(target_os = "linux")
        && (Path::new("/proc/driver/nvidia/version").exists()
            || load.quiet().ignore_stdout().ignore_stderr().run().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_build_follows_no_dependencies_and_names_those_it_needs() {
        assert_eq!(Build::Cpu.requirements().len(), 3);
        assert!(!Build::Cpu.with_dependencies() && Build::Cuda.with_dependencies());
        assert_eq!(Build::Cuda.requirements(), ["torch==2.11.0"]);
    }

    #[test]
    fn builds_have_folders_and_packages_of_their_own() {
        assert_ne!(Build::Cpu.folder(), Build::Cuda.folder());
        assert_ne!(Build::Cpu.requirements(), Build::Cuda.requirements());
    }
}
