//! Which Python packages a libtorch is made of.

/// The libtorch that tch 0.24 is made for.
pub(super) const VERSION: &str = "2.11.0";

/// What the build machine's Python must be for there to be a package.
pub(super) const PYTHONS: &str = "3.10 to 3.14";

/// Which libtorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// Linked against the CPU's part alone: 560 MB to download.
    Cpu,
    /// With everything a GPU needs: several GB.
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

    /// Options of pip that go with the requirements.
    pub(super) fn pip_args(self) -> &'static [&'static str] {
        match self {
            Self::Cpu => &["--no-deps"],
            Self::Cuda => &[],
        }
    }

    /// What a finished installation says of itself.
    pub(super) fn stamp(self) -> String {
        self.requirements().join("\n") + "\n"
    }
}

/// The version in PyTorch's `version.py`.
pub(super) fn version_in(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|line| line.strip_prefix("__version__"))?;
    let quoted = value.split(['\'', '"']).nth(1)?;
    (!quoted.is_empty()).then_some(quoted)
}

/// Whether a version such as `2.11.0+cu130` is the one we need.
pub(super) fn is_ours(version: &str) -> bool {
    version.split('+').next() == Some(VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_build_follows_no_dependencies_and_names_those_it_needs() {
        assert_eq!(Build::Cpu.requirements().len(), 3);
        assert_eq!(Build::Cpu.pip_args(), ["--no-deps"]);
        assert_eq!(Build::Cuda.requirements(), ["torch==2.11.0"]);
    }

    #[test]
    fn builds_have_folders_and_stamps_of_their_own() {
        assert_ne!(Build::Cpu.folder(), Build::Cuda.folder());
        assert_ne!(Build::Cpu.stamp(), Build::Cuda.stamp());
    }

    #[test]
    fn versions_are_read_and_compared_without_their_local_part() {
        let text = "from typing import Optional\n\n__version__ = '2.11.0+cu130'\ndebug = False\n";
        assert_eq!(version_in(text), Some("2.11.0+cu130"));
        assert_eq!(version_in("__version__ = \"2.11.0\"\n"), Some("2.11.0"));
        for wrong in ["", "__version__", "__version__ = ''", "x = '2.11.0'"] {
            assert_eq!(version_in(wrong), None, "{wrong}");
        }
        assert!(is_ours("2.11.0+cu130") && is_ours("2.11.0"));
        for other in ["2.11.01", "2.1", "", "+2.11.0", "2.11.0a1"] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
