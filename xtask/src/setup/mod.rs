//! Requirements of some packages and examples in addition to Rust, fetched when they are first needed.
//!
//! All of them are Python packages, installed with pip into the target folder. Each has a virtual environment of its
//! own, so that the user's Python is not touched.

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
pub(crate) use packages::{Packages, run, stamped};
use torch::{Build, Environment};

/// Provides requirements, and caches those that it has provided.
#[derive(Debug)]
pub(crate) struct Provision<'a> {
    project: &'a Project,
    build: Option<Build>,
    /// The environment, or the reason why there is none, which each user of libtorch reports.
    libtorch: OnceCell<Result<Environment, String>>,
}

impl<'a> Provision<'a> {
    pub(crate) fn new(project: &'a Project, build: Option<Build>) -> Self {
        Self { project, build, libtorch: OnceCell::new() }
    }

    /// The variables for libtorch, which is installed now if there is none.
    pub(crate) fn libtorch(&self) -> Result<&Environment> {
        let provided = self.libtorch.get_or_init(|| {
            torch::environment(self.project, self.build).map_err(|error| format!("{error:#}"))
        });
        provided.as_ref().map_err(|reason| anyhow!("{reason}"))
    }

    /// Begins to install libtorch in the background, unless there is one. [`Provision::libtorch`] waits for it and
    /// reports problems. tch and the shim are built later: cargo locks the target folder while it builds, so the first
    /// steps would wait for them.
    pub(crate) fn begin(&self) -> Result<Background> {
        let mut install = Command::new(std::env::current_exe()?);
        let build = self.build.map(|build| format!("--{}", build.name()));
        install.args(build).arg("torch").current_dir(&self.project.workspace.root);
        Ok(Background(install.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }

    /// The command that runs an example with its requirements, in the user's current folder.
    pub(crate) fn run(&self, example: &Example<'_>, args: &[String]) -> Result<Cmd<'a>> {
        let command = example.cargo(self.project.cargo_of_caller("run")).arg("--").args(args);
        Ok(command.envs(self.variables(example)?))
    }

    /// The variables with which an example runs.
    pub(crate) fn variables(&self, example: &Example<'_>) -> Result<Vec<(String, PathBuf)>> {
        let own = if example.needs_libtorch { self.libtorch()?.variables() } else { Vec::new() };
        let files = example.settings.data.iter().map(|data| self.data(data)).collect::<Result<Vec<_>>>()?;
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        Ok(own.chain(files.into_iter().flatten()).collect())
    }

    /// The variable with the folder of the files; `None` if the user has set it.
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

/// A program that ends before this value is dropped.
#[derive(Debug)]
pub(crate) struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        // A failure needs no report here: each user of its result finds the reason.
        let _ = self.0.wait();
    }
}
