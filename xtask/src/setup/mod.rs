//! What some packages and examples need besides Rust, fetched when it is first asked for.
//!
//! Everything comes as Python packages, with pip, into the target folder: a virtual environment of
//! its own for each, so that nothing of the user's Python is touched.

mod packages;
pub(crate) mod torch;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Result, anyhow};
use xshell::Cmd;

use crate::examples::Example;
use crate::metadata::Data;
use crate::project::Project;
pub(crate) use packages::Packages;
use torch::{Build, Environment};

/// Provides, and remembers what it has provided.
#[derive(Debug)]
pub(crate) struct Provision<'a> {
    project: &'a Project,
    build: Option<Build>,
    /// The reason where there is none: each that needs it says so.
    libtorch: OnceCell<Result<Environment, String>>,
}

impl<'a> Provision<'a> {
    pub(crate) fn new(project: &'a Project, build: Option<Build>) -> Self {
        Self { project, build, libtorch: OnceCell::new() }
    }

    /// The variables for libtorch, which is installed now when there is none.
    pub(crate) fn libtorch(&self) -> Result<&Environment> {
        let provided = self.libtorch.get_or_init(|| {
            torch::environment(self.project, self.build).map_err(|error| format!("{error:#}"))
        });
        provided.as_ref().map_err(|reason| anyhow!("{reason}"))
    }

    /// Begins to install libtorch, unless there is one, while other work goes on. Problems are told by
    /// [`Provision::libtorch`], which waits for it.
    pub(crate) fn begin(&self) -> Result<Background> {
        let mut install = Command::new(std::env::current_exe()?);
        install.args(self.build.map(Build::flag)).arg("torch").current_dir(&self.project.workspace.root);
        Ok(Background(install.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }

    /// The command that runs an example with all it needs, in the folder where the user is.
    pub(crate) fn run(&self, example: &Example<'_>, args: &[String]) -> Result<Cmd<'a>> {
        let command = example.cargo(self.project.cargo_of_caller("run")).arg("--").args(args);
        Ok(command.envs(self.variables(example)?))
    }

    /// The variables an example runs with.
    pub(crate) fn variables(&self, example: &Example<'_>) -> Result<Vec<(String, PathBuf)>> {
        let own = if example.needs_libtorch { self.libtorch()?.variables() } else { Vec::new() };
        let files = example.settings.data.iter().map(|data| self.data(data)).collect::<Result<Vec<_>>>()?;
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        Ok(own.chain(files.into_iter().flatten()).collect())
    }

    /// The variable that tells where the files are; `None` when the user has said so already.
    fn data(&self, data: &Data) -> Result<Option<(String, PathBuf)>> {
        if std::env::var_os(&data.variable).is_some_and(|value| !value.is_empty()) {
            return Ok(None);
        }
        let root = self.project.workspace.target_dir.join("models").join(&data.variable);
        let packages = Packages {
            root,
            requirements: data.requirements.clone(),
            otherwise: format!("or set {} to a folder with its files", data.variable),
        };
        let folder = packages.install(self.project, &|_| Ok(()))?;
        Ok(Some((data.variable.clone(), folder.join(&data.folder))))
    }
}

/// A program that ends before this value does.
#[derive(Debug)]
pub(crate) struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        // Nobody to tell: whoever needs its result finds out why there is none.
        let _ = self.0.wait();
    }
}
