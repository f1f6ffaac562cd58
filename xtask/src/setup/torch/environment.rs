//! The variables by which torch-sys finds libtorch when it builds, and the loader when it runs.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use xshell::Cmd;

/// What the loader of this system looks for libraries by.
const LOADER_PATH: &str = if cfg!(target_os = "macos") {
    "DYLD_LIBRARY_PATH"
} else if cfg!(windows) {
    "PATH"
} else {
    "LD_LIBRARY_PATH"
};

/// A libtorch, as the variables say it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Environment {
    /// Which one it is, in a few words.
    pub(crate) what: String,
    /// What torch-sys is told; nothing where the caller's own variables stay in force.
    pub(super) named: Vec<(&'static str, PathBuf)>,
    /// Folders with libraries, in the order in which they are searched; libtorch's own first.
    pub(super) libraries: Vec<PathBuf>,
}

impl Environment {
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
        let folders = self.libraries.iter().cloned().chain(others);
        // Only a folder with a colon in its name cannot be joined; the loader could not find it either.
        let path = env::join_paths(folders).ok().map(|path| (LOADER_PATH, path));
        let named = self.named.iter().map(|(name, folder)| (*name, folder.clone().into_os_string()));
        named.chain(path).collect()
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
        Environment { what: String::new(), named: vec![("LIBTORCH", libtorch.into())], libraries }
    }

    #[test]
    fn our_folders_come_before_inherited_ones_and_never_twice() {
        let text = |inherited: Option<&str>| {
            let variables = environment("/t/libtorch", &["/t/libtorch/lib", "/t/cuda"])
                .variables_before(inherited.map(OsString::from));
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
    fn a_chosen_pytorch_keeps_the_callers_variables() {
        let given = Environment { named: Vec::new(), ..environment("", &["/a/lib"]) };
        let names: Vec<_> = given.variables_before(None).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [LOADER_PATH]);
    }

    #[test]
    fn exports_survive_any_path() {
        let odd = environment("/it's here/x", &["/it's here/x/lib"]);
        let text = odd.exports();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("export LIBTORCH='/it'\\''s here/x'"));
        let path =
            format!("export {LOADER_PATH}='/it'\\''s here/x/lib'\"${{{LOADER_PATH}:+:${LOADER_PATH}}}\"");
        assert_eq!(lines.next(), Some(&*path));
    }
}
