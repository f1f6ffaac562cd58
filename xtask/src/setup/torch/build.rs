//! The two builds of libtorch, and the Python packages they are made of.

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
        if self == Self::Cuda { "cuda" } else { "cpu" }
    }

    /// What pip is asked for. Checked by their checksums, and whole: pip follows no dependencies.
    ///
    /// The package `torch` is a CUDA build. Its CPU part needs only the two libraries that its profiler is linked
    /// with.
    pub(super) fn requirements(self) -> String {
        let cpu = include_str!("../requirements/libtorch.txt");
        let more = if self == Self::Cuda { include_str!("../requirements/libtorch-cuda.txt") } else { "" };
        cpu.to_owned() + more
    }

    /// The build this machine can make use of: that for GPUs where the loader finds NVIDIA's driver.
    pub(super) fn of_this_machine(project: &Project) -> Self {
        // Only the loader knows all places to look in.
        let load = project.command("python3").args(["-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"]);
        let is_there = load.quiet().ignore_stdout().ignore_stderr().run().is_ok();
        if is_there { Self::Cuda } else { Self::Cpu }
    }
}

#[cfg(test)]
mod tests {
    use super::super::version::VERSION;
    use super::*;

    #[test]
    fn builds_have_folders_and_packages_of_their_own() {
        assert_ne!(Build::Cpu.name(), Build::Cuda.name());
        let [cpu, cuda] = [Build::Cpu, Build::Cuda].map(Build::requirements);
        assert!(cuda.starts_with(&cpu) && cuda.len() > cpu.len());
        assert!(cpu.contains(&format!("torch=={VERSION} ")));
    }

    #[test]
    fn every_package_has_a_version_and_checksums() {
        for list in [&Build::Cuda.requirements(), crate::setup::packages::PIP] {
            for line in list.lines().filter(|line| !line.starts_with('#')) {
                assert!(line.contains("==") && line.contains(" --hash=sha256:"), "{line}");
            }
        }
    }
}
