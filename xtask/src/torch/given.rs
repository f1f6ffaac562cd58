//! The libtorch that the caller's environment names.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::environment::Environment;
use super::version;
use crate::project::Project;

/// Prints the version and the library folder of the PyTorch that `LIBTORCH_USE_PYTORCH` means.
const ASK_PYTORCH: &str = "import os, torch; print(torch.__version__); \
    print(os.path.join(os.path.dirname(torch.__file__), 'lib'))";

/// The libtorch that the caller chose by `LIBTORCH_USE_PYTORCH` or `LIBTORCH`, in the order in
/// which torch-sys asks for them.
pub(super) fn environment(project: &Project) -> Result<Option<Environment>> {
    if env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
        return Ok(Some(Environment::given("LIBTORCH_USE_PYTORCH", pytorch_libraries(project)?)));
    }
    let Some(libtorch) = env::var_os("LIBTORCH") else { return Ok(None) };
    let folders = Folders::new(&libtorch, env::var_os("LIBTORCH_LIB"), env::var_os("LIBTORCH_INCLUDE"));
    folders.check()?;
    Ok(Some(Environment::given("LIBTORCH", folders.lib)))
}

/// Where the parts of a libtorch are.
struct Folders {
    root: PathBuf,
    lib: PathBuf,
    include: PathBuf,
}

impl Folders {
    fn new(libtorch: &OsString, lib: Option<OsString>, include: Option<OsString>) -> Self {
        let of = |other: Option<OsString>, name| PathBuf::from(other.as_ref().unwrap_or(libtorch)).join(name);
        Self { root: libtorch.into(), lib: of(lib, "lib"), include: of(include, "include") }
    }

    fn check(&self) -> Result<()> {
        ensure!(
            has_libtorch(&self.lib),
            "LIBTORCH: no libtorch in {}; unset the variable to have one installed",
            self.lib.display()
        );
        version::check("LIBTORCH", version::stated(&self.root, &self.include).as_deref())
    }
}

fn has_libtorch(folder: &Path) -> bool {
    ["libc10.so", "libc10.dylib", "c10.dll", "libc10.a"].iter().any(|name| folder.join(name).exists())
}

fn pytorch_libraries(project: &Project) -> Result<PathBuf> {
    // The interpreter that torch-sys asks.
    let python = if env::var_os("VIRTUAL_ENV").is_some() { "python" } else { "python3" };
    let answer = project.command(python).args(["-c", ASK_PYTORCH]).quiet().ignore_stderr().read();
    let answer = answer.with_context(|| {
        format!("LIBTORCH_USE_PYTORCH: `{python}` has no PyTorch; unset the variable to have one installed")
    })?;
    let (version, folder) = answer.trim().split_once('\n').context("LIBTORCH_USE_PYTORCH: no answer")?;
    version::check("LIBTORCH_USE_PYTORCH", Some(version.trim()))?;
    Ok(folder.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn folders(root: &Path, lib: Option<&str>) -> Folders {
        Folders::new(&root.into(), lib.map(OsString::from), None)
    }

    #[test]
    fn a_libtorch_that_is_not_there_is_named() {
        let error = folders(Path::new("/nowhere"), None).check().unwrap_err().to_string();
        assert!(error.contains("/nowhere/lib"), "{error}");
        let error = folders(Path::new("/a"), Some("/elsewhere")).check().unwrap_err().to_string();
        assert!(error.contains("/elsewhere/lib"), "{error}");
    }

    #[test]
    fn a_libtorch_of_another_version_is_refused_and_one_that_states_none_is_not() {
        let scratch = Scratch::new("given");
        scratch.file("lib/libc10.so", "");
        folders(scratch.root(), None).check().unwrap();
        scratch.file("build-version", "2.10.0+cpu");
        let error = folders(scratch.root(), None).check().unwrap_err().to_string();
        assert!(error.contains("2.10.0+cpu"), "{error}");
        scratch.file("build-version", "2.11.0+cpu");
        folders(scratch.root(), None).check().unwrap();
    }
}
