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

/// The libtorch that the caller chose.
pub(super) fn environment(project: &Project) -> Result<Option<Environment>> {
    match Choice::of(|name| env::var_os(name))? {
        None => Ok(None),
        Some(Choice::Pytorch) => {
            Ok(Some(Environment::given("LIBTORCH_USE_PYTORCH", Vec::new(), pytorch_libraries(project)?)))
        }
        Some(Choice::Folders(folders)) => {
            folders.check()?;
            Ok(Some(Environment::given("LIBTORCH", folders.variables(), folders.lib())))
        }
    }
}

/// What the caller's variables say.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Pytorch,
    Folders(Folders),
}

/// Where the parts of a libtorch are.
///
/// Absolute, and handed on as such: the build script and the loader each read them in a folder of
/// their own.
#[derive(Debug, PartialEq, Eq)]
struct Folders {
    root: PathBuf,
    /// `lib` is in here, if not in the root.
    lib: Option<PathBuf>,
    /// `include` is in here, if not in the root.
    include: Option<PathBuf>,
}

impl Choice {
    /// In the order in which torch-sys asks. A variable that is set to nothing chooses nothing.
    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        if value("LIBTORCH_USE_PYTORCH").is_some() {
            return Ok(Some(Self::Pytorch));
        }
        let folder = |name: &str| value(name).map(std::path::absolute).transpose().context(name.to_owned());
        let Some(root) = folder("LIBTORCH")? else { return Ok(None) };
        let (lib, include) = (folder("LIBTORCH_LIB")?, folder("LIBTORCH_INCLUDE")?);
        Ok(Some(Self::Folders(Folders { root, lib, include })))
    }
}

impl Folders {
    fn lib(&self) -> PathBuf {
        self.lib.as_ref().unwrap_or(&self.root).join("lib")
    }

    fn include(&self) -> PathBuf {
        self.include.as_ref().unwrap_or(&self.root).join("include")
    }

    fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let others = [("LIBTORCH_LIB", &self.lib), ("LIBTORCH_INCLUDE", &self.include)];
        let others = others.into_iter().filter_map(|(name, folder)| Some((name, folder.clone()?)));
        [("LIBTORCH", self.root.clone())].into_iter().chain(others).collect()
    }

    fn check(&self) -> Result<()> {
        ensure!(
            has_libtorch(&self.lib()),
            "LIBTORCH: no libtorch in {}; unset the variable to have one installed",
            self.lib().display()
        );
        version::check("LIBTORCH", version::stated(&self.root, &self.include()).as_deref())
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
        Folders { root: root.to_owned(), lib: lib.map(PathBuf::from), include: None }
    }

    fn choice(variables: &[(&str, &str)]) -> Option<Choice> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        Choice::of(value).unwrap()
    }

    #[test]
    fn a_folder_that_is_relative_is_made_absolute_and_handed_on() {
        let here = env::current_dir().unwrap();
        let chosen =
            choice(&[("LIBTORCH", "some/libtorch"), ("LIBTORCH_LIB", "other"), ("LIBTORCH_INCLUDE", "/i")]);
        let Some(Choice::Folders(chosen)) = chosen else { panic!("{chosen:?}") };
        assert_eq!(chosen.lib(), here.join("other/lib"));
        assert_eq!(chosen.include(), Path::new("/i/include"));
        let variables = [
            ("LIBTORCH", here.join("some/libtorch")),
            ("LIBTORCH_LIB", here.join("other")),
            ("LIBTORCH_INCLUDE", "/i".into()),
        ];
        assert_eq!(chosen.variables(), variables);
    }

    #[test]
    fn a_variable_that_is_set_to_nothing_chooses_nothing() {
        assert_eq!(choice(&[("LIBTORCH", ""), ("LIBTORCH_USE_PYTORCH", "")]), None);
        let chosen = choice(&[("LIBTORCH", "/a"), ("LIBTORCH_USE_PYTORCH", ""), ("LIBTORCH_LIB", "")]);
        assert_eq!(chosen, Some(Choice::Folders(folders(Path::new("/a"), None))));
        let chosen = choice(&[("LIBTORCH", "/a"), ("LIBTORCH_USE_PYTORCH", "1")]);
        assert_eq!(chosen, Some(Choice::Pytorch));
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
