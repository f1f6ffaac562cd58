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

/// The libtorch that the caller chose, in the order in which torch-sys asks; for that, too, a variable that is set
/// to nothing is set.
pub(super) fn environment(project: &Project) -> Result<Option<Environment>> {
    let given = |variable: &str, named, lib| {
        Ok(Some(Environment { what: format!("{variable} of yours"), named, libraries: vec![lib] }))
    };
    if env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
        return given("LIBTORCH_USE_PYTORCH", Vec::new(), pytorch_libraries(project)?);
    }
    if env::var_os("LIBTORCH").is_none() {
        return Ok(None);
    }
    let folders = folders(|name| env::var_os(name))?;
    let lib = libraries(&folders)?;
    given("LIBTORCH", folders, lib)
}

/// Those that are set, absolute: the build script and the loader each read them in a folder of their own.
fn folders(variable: impl Fn(&str) -> Option<OsString>) -> Result<Vec<(&'static str, PathBuf)>> {
    let named = ["LIBTORCH", "LIBTORCH_LIB", "LIBTORCH_INCLUDE"].into_iter();
    let named = named.filter_map(|name| Some((name, variable(name)?)));
    named.map(|(name, folder)| Ok((name, std::path::absolute(folder).context(name)?))).collect()
}

/// The folder with the libraries, when it holds a libtorch of the right version.
fn libraries(folders: &[(&str, PathBuf)]) -> Result<PathBuf> {
    let folder = |name: &str| folders.iter().find(|(known, _)| *known == name).map(|(_, folder)| folder);
    let root = folder("LIBTORCH").context("LIBTORCH: not set")?;
    let lib = folder("LIBTORCH_LIB").unwrap_or(root).join("lib");
    ensure!(
        has_libtorch(&lib),
        "LIBTORCH: no libtorch in {}; unset the variable to have one installed",
        lib.display()
    );
    version::check("LIBTORCH", version::stated(root).as_deref())?;
    Ok(lib)
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
    use crate::tests::Scratch;

    #[test]
    fn a_folder_that_is_relative_is_made_absolute_and_nothing_is_no_folder() {
        let set = |values: [Option<&str>; 2]| {
            folders(move |name| match name {
                "LIBTORCH" => values[0].map(Into::into),
                "LIBTORCH_INCLUDE" => values[1].map(Into::into),
                _ => None,
            })
        };
        let here = env::current_dir().unwrap();
        let absolute = vec![("LIBTORCH", here.join("some/libtorch")), ("LIBTORCH_INCLUDE", "/i".into())];
        assert_eq!(set([Some("some/libtorch"), Some("/i")]).unwrap(), absolute);
        assert_eq!(set([Some(""), None]).unwrap_err().to_string(), "LIBTORCH");
    }

    #[test]
    fn a_libtorch_that_is_not_there_is_named() {
        let mut folders = vec![("LIBTORCH", "/nowhere".into())];
        assert!(libraries(&folders).unwrap_err().to_string().contains("/nowhere/lib"));
        folders.push(("LIBTORCH_LIB", "/elsewhere".into()));
        assert!(libraries(&folders).unwrap_err().to_string().contains("/elsewhere/lib"));
    }

    #[test]
    fn a_libtorch_of_another_version_is_refused_and_one_that_states_none_is_not() {
        let scratch = Scratch::new("given");
        scratch.file("lib/libc10.so", "");
        let found = || libraries(&[("LIBTORCH", scratch.root().to_owned())]);
        assert_eq!(found().unwrap(), scratch.path("lib"));
        scratch.file("build-version", "2.10.0+cpu");
        let error = found().unwrap_err().to_string();
        assert!(error.contains("2.10.0+cpu"), "{error}");
        scratch.file("build-version", "2.11.0+cpu");
        found().unwrap();
    }
}
