//! The variables by which torch-sys finds libtorch when it builds, and the loader when it runs.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::project::Project;

/// What the loader of this system looks for libraries by.
const LOADER_PATH: &str = if cfg!(target_os = "macos") {
    "DYLD_LIBRARY_PATH"
} else if cfg!(windows) {
    "PATH"
} else {
    "LD_LIBRARY_PATH"
};

/// Prints the library folder of the PyTorch that `LIBTORCH_USE_PYTORCH` means.
const ASK_PYTORCH: &str = "import os, torch; print(os.path.join(os.path.dirname(torch.__file__), 'lib'))";

/// A libtorch, as the variables say it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Environment {
    /// The value of `LIBTORCH`; `None` where the caller's own variables stay in force.
    libtorch: Option<PathBuf>,
    /// Folders with libraries, in the order in which they are searched; libtorch's own first.
    libraries: Vec<PathBuf>,
}

impl Environment {
    pub(super) fn new(libtorch: PathBuf, libraries: Vec<PathBuf>) -> Self {
        Self { libtorch: Some(libtorch), libraries }
    }

    /// The libtorch that the caller chose by `LIBTORCH_USE_PYTORCH` or `LIBTORCH`, in the order in
    /// which torch-sys asks for them.
    pub(super) fn given(project: &Project) -> Result<Option<Self>> {
        let libraries = if env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
            Some(pytorch_libraries(project)?)
        } else {
            libtorch_libraries(env::var_os("LIBTORCH"), env::var_os("LIBTORCH_LIB"))?
        };
        Ok(libraries.map(|folder| Self { libtorch: None, libraries: vec![folder] }))
    }

    /// The folder with libtorch's own libraries.
    pub(crate) fn folder(&self) -> &Path {
        &self.libraries[0]
    }

    /// Names and values.
    pub(super) fn variables(&self) -> Vec<(&'static str, OsString)> {
        self.variables_before(env::var_os(LOADER_PATH))
    }

    fn variables_before(&self, inherited: Option<OsString>) -> Vec<(&'static str, OsString)> {
        let inherited = inherited.filter(|path| !path.is_empty());
        let inherited = inherited.iter().flat_map(env::split_paths).collect::<Vec<_>>();
        let folders =
            self.libraries.iter().chain(inherited.iter().filter(|&path| !self.libraries.contains(path)));
        // Only a folder with a colon in its name cannot be joined; the loader could not find it either.
        let path = env::join_paths(folders).ok().map(|path| (LOADER_PATH, path));
        self.libtorch
            .clone()
            .map(|path| ("LIBTORCH", path.into_os_string()))
            .into_iter()
            .chain(path)
            .collect()
    }

    /// The variables as lines for a shell, which has loader paths of its own.
    pub(super) fn exports(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.variables_before(None) {
            let value = value.to_string_lossy().replace('\'', r"'\''");
            let inherited =
                if name == LOADER_PATH { format!("\"${{{name}:+:${name}}}\"") } else { String::new() };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "export {name}='{value}'{inherited}");
        }
        text
    }
}

/// The library folder, when `LIBTORCH` is set.
fn libtorch_libraries(libtorch: Option<OsString>, lib: Option<OsString>) -> Result<Option<PathBuf>> {
    let Some(libtorch) = libtorch else { return Ok(None) };
    let folder = Path::new(&lib.unwrap_or(libtorch)).join("lib");
    ensure!(
        has_libtorch(&folder),
        "LIBTORCH: no libtorch in {}; unset the variable to have one installed",
        folder.display()
    );
    Ok(Some(folder))
}

fn has_libtorch(folder: &Path) -> bool {
    ["libc10.so", "libc10.dylib", "c10.dll", "libc10.a"].iter().any(|name| folder.join(name).exists())
}

fn pytorch_libraries(project: &Project) -> Result<PathBuf> {
    // The interpreter that torch-sys asks.
    let python = if env::var_os("VIRTUAL_ENV").is_some() { "python" } else { "python3" };
    let answer = project.command(python).args(["-c", ASK_PYTORCH]).quiet().ignore_stderr().read();
    let folder = answer.with_context(|| {
        format!("LIBTORCH_USE_PYTORCH: `{python}` has no PyTorch; unset the variable to have one installed")
    })?;
    Ok(folder.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        Environment::new("/t/libtorch".into(), vec!["/t/libtorch/lib".into(), "/t/cuda".into()])
    }

    #[test]
    fn our_folders_come_before_inherited_ones_and_never_twice() {
        let text = |inherited: Option<&str>| {
            let variables = environment().variables_before(inherited.map(OsString::from));
            variables
                .into_iter()
                .map(|(name, value)| format!("{name}={}", value.display()))
                .collect::<Vec<_>>()
        };
        let path = |value: &str| vec!["LIBTORCH=/t/libtorch".to_owned(), format!("{LOADER_PATH}={value}")];
        assert_eq!(text(None), path("/t/libtorch/lib:/t/cuda"));
        // An empty variable would mean the current folder.
        assert_eq!(text(Some("")), path("/t/libtorch/lib:/t/cuda"));
        assert_eq!(text(Some("/t/cuda:/usr/lib")), path("/t/libtorch/lib:/t/cuda:/usr/lib"));
    }

    #[test]
    fn a_chosen_libtorch_keeps_the_callers_variables() {
        let given = Environment { libtorch: None, libraries: vec!["/a/lib".into()] };
        let names: Vec<_> = given.variables_before(None).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [LOADER_PATH]);
    }

    #[test]
    fn exports_survive_any_path() {
        let odd = Environment::new("/it's here/x".into(), vec!["/it's here/x/lib".into()]);
        let text = odd.exports();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("export LIBTORCH='/it'\\''s here/x'"));
        let path =
            format!("export {LOADER_PATH}='/it'\\''s here/x/lib'\"${{{LOADER_PATH}:+:${LOADER_PATH}}}\"");
        assert_eq!(lines.next(), Some(&*path));
    }

    #[test]
    fn a_libtorch_that_is_not_there_is_named() {
        assert_eq!(libtorch_libraries(None, Some("/x".into())).unwrap(), None);
        let error = libtorch_libraries(Some("/nowhere".into()), None).unwrap_err().to_string();
        assert!(error.contains("/nowhere/lib"), "{error}");
        let error = libtorch_libraries(Some("/a".into()), Some("/nowhere".into())).unwrap_err().to_string();
        assert!(error.contains("/nowhere/lib"), "{error}");
    }
}
