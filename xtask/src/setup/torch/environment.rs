//! The variables by which torch-sys finds libtorch at build time, and the loader at run time.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use xshell::Cmd;

use crate::project::Project;

/// The variable with the folders in which the loader of this system searches for libraries.
const LOADER_PATH: &str = if cfg!(target_os = "macos") {
    "DYLD_LIBRARY_PATH"
} else if cfg!(windows) {
    "PATH"
} else {
    "LD_LIBRARY_PATH"
};

/// Prints the library folder of the PyTorch that `LIBTORCH_USE_PYTORCH` selects.
const ASK_PYTORCH: &str = "import os, torch; print(os.path.join(os.path.dirname(torch.__file__), 'lib'))";

/// A libtorch, described by its variables.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// A short description of it.
    pub(crate) description: String,
    /// `LIBTORCH`, unless it is the caller's own and absolute.
    pub(super) libtorch: Option<PathBuf>,
    /// Folders with libraries, in search order; libtorch's own first.
    pub(super) libraries: Vec<PathBuf>,
}

impl Environment {
    /// The libtorch that the caller chose, with the precedence of torch-sys, for which an empty variable counts as set,
    /// too. Build scripts refuse a version other than 2.11.
    pub(super) fn of_caller(project: &Project) -> Result<Option<Self>> {
        let (name, libtorch, folder) = if env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
            // The interpreter that torch-sys asks.
            let python = if env::var_os("VIRTUAL_ENV").is_some() { "python" } else { "python3" };
            let answer = project.command(python).args(["-c", ASK_PYTORCH]).quiet().read();
            ("LIBTORCH_USE_PYTORCH", None, answer.context("LIBTORCH_USE_PYTORCH: no PyTorch")?.into())
        } else if let Some(libtorch) = env::var_os("LIBTORCH") {
            // Absolute, because the build script and the loader each read it in a folder of their own.
            let libtorch = std::path::absolute(libtorch).context("LIBTORCH")?;
            let lib = env::var_os("LIBTORCH_LIB").map_or_else(|| libtorch.clone(), PathBuf::from).join("lib");
            ("LIBTORCH", Some(libtorch), std::path::absolute(lib)?)
        } else {
            return Ok(None);
        };
        let shown = folder.display();
        ensure!(folder.is_dir(), "{name}: no folder {shown}; unset the variable to have libtorch installed");
        Ok(Some(Self { description: format!("your {name}"), libtorch, libraries: vec![folder] }))
    }

    /// `command` with the variables to build against this libtorch and to find it.
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
        // An empty variable would mean the current folder.
        let inherited = inherited.filter(|path| !path.is_empty());
        let others = inherited.iter().flat_map(env::split_paths);
        // Only a folder with a colon in its name cannot be joined; the loader could not find it either.
        let path = env::join_paths(self.libraries.iter().cloned().chain(others)).ok();
        let libtorch = self.libtorch.clone().map(|folder| ("LIBTORCH", folder.into_os_string()));
        libtorch.into_iter().chain(path.map(|path| (LOADER_PATH, path))).collect()
    }

    /// The variables as lines for a shell, which has loader paths of its own.
    pub(super) fn exports(&self) -> String {
        let line = |(name, value): (&str, OsString)| {
            let inherited = (name == LOADER_PATH).then(|| format!("\"${{{name}:+:${name}}}\""));
            export(name, &value, &inherited.unwrap_or_default())
        };
        self.variables_before(None).into_iter().map(line).collect()
    }
}

/// A line for a shell that sets a variable to the quoted value, followed by the suffix as it is.
pub(super) fn export(name: &str, value: &OsStr, suffix: &str) -> String {
    format!("export {name}='{}'{suffix}\n", value.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_folders_come_before_inherited_ones_in_any_path() {
        let libtorch = PathBuf::from("/it's here/x");
        let libraries = vec![libtorch.join("lib")];
        let ours = Environment { description: String::new(), libtorch: Some(libtorch), libraries };
        for (inherited, path) in [("", "/it's here/x/lib"), ("/cuda:/usr", "/it's here/x/lib:/cuda:/usr")] {
            let variables = ours.variables_before(Some(inherited.into()));
            assert_eq!(variables, [("LIBTORCH", "/it's here/x".into()), (LOADER_PATH, path.into())]);
        }
        let inherited = format!("\"${{{LOADER_PATH}:+:${LOADER_PATH}}}\"");
        let quoted = r"'/it'\''s here/x";
        let lines = format!("export LIBTORCH={quoted}'\nexport {LOADER_PATH}={quoted}/lib'{inherited}\n");
        assert_eq!(ours.exports(), lines);
    }
}
