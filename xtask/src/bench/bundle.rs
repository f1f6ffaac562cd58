//! `cargo xtask gpu-bundle DIR`: checks and benchmarks in one folder, to be run on a machine with a
//! GPU that has neither Rust nor a network.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::Value;
use xshell::Cmd;

use crate::project::Project;
use crate::setup::torch::{self, Build, Environment};

/// The source of the library that stands in for the CUDA driver, which the tests elsewhere compile
/// themselves.
const DOUBLE: &str = "toma-cuda/tests/cuda/double.rs";

const RUN: &str = include_str!("bundle/run.sh");

/// What goes into the folder: packages, kinds and names of targets.
const PROGRAMS: [[&str; 3]; 5] = [
    ["toma-torch", "--test", "gpu"],
    ["toma-torch", "--test", "torch"],
    ["toma-cuda", "--test", "cuda"],
    ["toma-torch", "--bench", "tensors"],
    ["toma", "--bench", "overhead"],
];

#[derive(Args, Debug)]
pub(crate) struct GpuBundle {
    folder: PathBuf,
}

impl GpuBundle {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        // Of the caller's current folder; the project's shell stands elsewhere.
        let folder = std::path::absolute(&self.folder)?;
        let project = Project::find()?;
        let environment = torch::environment(&project, Some(Build::Cpu))?;
        let bundle = Bundle { project: &project, environment: &environment, folder };
        bundle.clear()?;
        PROGRAMS.into_iter().try_for_each(|program| bundle.add(program))?;
        bundle.add_double()?;
        bundle.add_run()?;
        let folder = bundle.folder.display();
        println!("{folder}: run {folder}/run where there is a GPU and a Python with PyTorch 2.11");
        Ok(ExitCode::SUCCESS)
    }
}

/// A folder that is being filled.
struct Bundle<'a> {
    project: &'a Project,
    environment: &'a Environment,
    folder: PathBuf,
}

impl Bundle<'_> {
    /// Makes the folder, or empties it of an older bundle; anything else in it stays.
    fn clear(&self) -> Result<()> {
        let (shell, folder) = (&self.project.shell, &self.folder);
        if folder.exists() && !shell.read_dir(folder)?.is_empty() {
            let is_ours = shell.read_file(folder.join("run")).is_ok_and(|text| is_run(&text));
            ensure!(is_ours, "{}: neither empty nor a bundle", folder.display());
            shell.remove_path(folder)?;
        }
        Ok(shell.create_dir(folder).map(drop)?)
    }

    /// Builds a program as it is released, and puts it into the folder without its symbols.
    fn add(&self, [package, kind, name]: [&str; 3]) -> Result<()> {
        self.project.heading(name);
        let cargo = self.project.cargo("test").args(["--release", "--no-run", "-p", package, kind, name]);
        let built = built(self.environment.give(cargo), name)?;
        let target = self.folder.join(name);
        self.project.shell.copy_file(built, &target)?;
        Ok(self.project.command("strip").arg(target).quiet().run()?)
    }

    fn add_double(&self) -> Result<()> {
        let folder = self.folder.join("double");
        self.project.shell.create_dir(&folder)?;
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let rustc = self.project.command(rustc).args(["--edition=2024", "--crate-type=cdylib"]);
        let rustc = rustc.args(["--crate-name=cuda", "-Cstrip=symbols", DOUBLE, "-o"]);
        Ok(rustc.arg(folder.join("libcuda.so")).quiet().run()?)
    }

    fn add_run(&self) -> Result<()> {
        let run = self.folder.join("run");
        self.project.shell.write_file(&run, RUN)?;
        Ok(self.project.command("chmod").arg("755").arg(run).quiet().run()?)
    }
}

/// Whether a script is ours, of this version or another: by the lines it begins with.
fn is_run(text: &str) -> bool {
    text.lines().take(2).eq(RUN.lines().take(2))
}

/// The program that `cargo` builds of the target `name`.
pub(crate) fn built(cargo: Cmd<'_>, name: &str) -> Result<PathBuf> {
    let cargo = cargo.arg("--message-format=json-render-diagnostics");
    executable(&cargo.read()?, name).with_context(|| format!("`{cargo}`: built no program `{name}`"))
}

/// The program that cargo says it has built of the target `name`.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| message["target"]["name"] == name);
    built.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_target_is_found_among_cargos_messages() {
        let messages = "no json\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"gpu\"},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"torch\"},\"executable\":\"/t/torch-1\"}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"gpu\"},\"executable\":\"/t/gpu-2\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages, "gpu"), Some("/t/gpu-2".into()));
        assert_eq!(executable(messages, "cuda"), None);
        assert_eq!(executable("", "gpu"), None);
    }

    #[test]
    fn a_script_is_known_by_its_beginning() {
        assert!(is_run(RUN) && is_run(&format!("{RUN}more")));
        for other in ["", "#!/bin/sh\n", "#!/bin/sh\nrm -r .\n"] {
            assert!(!is_run(other), "{other}");
        }
    }
}
