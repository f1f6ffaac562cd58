//! The variables by which torch-sys finds libtorch when it builds, and the loader when it runs.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use xshell::Cmd;

use crate::project::Project;

/// The loader of this system searches for libraries in the folders of this variable.
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
    /// Which one it is, in a few words.
    pub(crate) what: String,
    /// `LIBTORCH`, where it is not the caller's own or is made absolute.
    pub(super) libtorch: Option<PathBuf>,
    /// Folders with libraries, in the order in which they are searched; libtorch's own first.
    pub(super) libraries: Vec<PathBuf>,
}

impl Environment {
    /// The libtorch that the caller chose, in the order in which torch-sys asks; for that, too, a variable that is set
    /// to nothing is set. Build scripts refuse another version than 2.11.
    pub(super) fn of_caller(project: &Project) -> Result<Option<Self>> {
        let (name, libtorch, folder) = if env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
            // The interpreter that torch-sys asks.
            let python = if env::var_os("VIRTUAL_ENV").is_some() { "python" } else { "python3" };
            let answer = project.command(python).args(["-c", ASK_PYTORCH]).quiet().read();
            ("LIBTORCH_USE_PYTORCH", None, answer.context("LIBTORCH_USE_PYTORCH: no PyTorch")?.into())
        } else if let Some(libtorch) = env::var_os("LIBTORCH") {
            // Absolute: the build script and the loader each read it in a folder of their own.
            let libtorch = std::path::absolute(libtorch).context("LIBTORCH")?;
            let lib = env::var_os("LIBTORCH_LIB").map_or_else(|| libtorch.clone(), PathBuf::from).join("lib");
            ("LIBTORCH", Some(libtorch), std::path::absolute(lib)?)
        } else {
            return Ok(None);
        };
        ensure!(
            folder.is_dir(),
            "{name}: no folder {}; unset the variable to have libtorch installed",
            folder.display()
        );
        Ok(Some(Self { what: format!("{name} of yours"), libtorch, libraries: vec![folder] }))
    }

    /// `command` with the variables that make it build against, and find, this libtorch.
    pub(crate) fn give<'a>(&self, command: Cmd<'a>) -> Cmd<'a> {
        command.envs(self.variables())
    }

    /// The folder with libtorch's own libraries.
    pub(crate) fn folder(&self) -> &Path {
        &self.libraries[0]
    }

    /// Names and values.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        self.variables_before(env::var_os(LOADER_PATH))
    }

    fn variables_before(&self, inherited: Option<OsString>) -> Vec<(&'static str, OsString)> {
        let inherited = inherited.filter(|path| !path.is_empty());
        let inherited = inherited.iter().flat_map(env::split_paths);
        let others = inherited.filter(|path| !self.libraries.contains(path));
        // Only a folder with a colon in its name cannot be joined; the loader could not find it either.
        let path = env::join_paths(self.libraries.iter().cloned().chain(others)).ok();
        let libtorch = self.libtorch.clone().map(|folder| ("LIBTORCH", folder.into_os_string()));
        libtorch.into_iter().chain(path.map(|path| (LOADER_PATH, path))).collect()
    }

    /// The variables as lines for a shell, which has loader paths of its own.
    pub(super) fn exports(&self) -> String {
        let line = |(name, value): (&str, OsString)| {
            let value = value.to_string_lossy().replace('\'', r"'\''");
            let inherited = (name == LOADER_PATH).then(|| format!("\"${{{name}:+:${name}}}\""));
            format!("export {name}='{value}'{}\n", inherited.unwrap_or_default())
        };
        self.variables_before(None).into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(libtorch: &str, libraries: &[&str]) -> Environment {
        let libraries = libraries.iter().map(PathBuf::from).collect();
        Environment { what: String::new(), libtorch: Some(libtorch.into()), libraries }
    }

    #[test]
    fn our_folders_come_before_inherited_ones_and_never_twice() {
        let path_after = |inherited: Option<&str>| {
            let ours = environment("/t/libtorch", &["/t/libtorch/lib", "/t/cuda"]);
            let variables = ours.variables_before(inherited.map(OsString::from));
            assert_eq!(variables[0], ("LIBTORCH", "/t/libtorch".into()));
            variables[1].1.to_string_lossy().into_owned()
        };
        assert_eq!(path_after(None), "/t/libtorch/lib:/t/cuda");
        // An empty variable would mean the current folder.
        assert_eq!(path_after(Some("")), "/t/libtorch/lib:/t/cuda");
        assert_eq!(path_after(Some("/t/cuda:/usr/lib")), "/t/libtorch/lib:/t/cuda:/usr/lib");
    }

    #[test]
    fn exports_survive_any_path() {
        let text = environment("/it's here/x", &["/it's here/x/lib"]).exports();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("export LIBTORCH='/it'\\''s here/x'"));
        let path =
            format!("export {LOADER_PATH}='/it'\\''s here/x/lib'\"${{{LOADER_PATH}:+:${LOADER_PATH}}}\"");
        assert_eq!(lines.next(), Some(&*path));
    }
}
