//! `cargo xtask gpu-bundle DIR`: checks and benchmarks in one folder, for a machine with a GPU that has neither Rust
//! nor a network.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::Value;
use xshell::Cmd;

use crate::project::Project;
use crate::setup::torch::{self, Build, card, compiler};

/// The source of the library that replaces the CUDA driver. On other machines the tests compile it themselves.
const DOUBLE: &str = "toma-cuda/tests/cuda/double.rs";

/// The source of a library that gives a real card the settings of a paper card.
const LIMITS: &str = "xtask/src/bench/bundle/limits.c";

/// Content of the folder: packages, kinds and names of targets.
const PROGRAMS: [[&str; 3]; 10] = [
    ["toma-torch", "--test", "gpu"],
    ["toma-torch", "--test", "checkpoint"],
    ["toma-torch", "--test", "offload"],
    ["toma-torch", "--test", "torch"],
    ["toma-torch", "--test", "lines"],
    ["toma-cuda", "--test", "cuda"],
    ["toma-torch", "--bench", "steps"],
    ["toma-torch", "--bench", "nets"],
    ["toma-torch", "--bench", "tensors"],
    ["toma", "--bench", "overhead"],
];

#[derive(Args, Debug)]
pub(crate) struct GpuBundle {
    folder: PathBuf,
}

impl GpuBundle {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        // Relative to the caller's current folder, which the project's shell leaves.
        let folder = std::path::absolute(&self.folder)?;
        let project = Project::find()?;
        let environment = torch::environment(&project, Some(Build::Cpu))?;
        let is_new = !folder.exists() || project.shell.read_dir(&folder)?.is_empty();
        ensure!(is_new, "{}: not empty", folder.display());
        project.shell.create_dir(&folder)?;
        for [package, kind, name] in PROGRAMS {
            project.heading(name);
            let cargo = project.cargo("test").args(["--release", "--no-run", "-p", package, kind, name]);
            let program = folder.join(name);
            project.shell.copy_file(built(environment.give(cargo), name)?, &program)?;
            project.command("strip").arg(program).quiet().run()?;
        }
        project.heading("the checks on a paper card");
        let checks = card::built(&project, &environment)?.checks(project.command(folder.join("gpu")));
        let table = checks.ignore_status().read()?;
        project.shell.write_file(folder.join("card.txt"), table)?;
        for (name, suite) in project.workspace.on_card() {
            let file = folder.join(format!("{name}.txt"));
            project.shell.write_file(file, suite.arguments(&[]).join(" "))?;
        }
        let limits = project.command(compiler()).args(["-O1", "-shared", "-fPIC", "-x", "c", LIMITS, "-o"]);
        limits.arg(folder.join("liblimits.so")).quiet().run()?;
        let double = project.shell.create_dir(folder.join("double"))?.join("libcuda.so");
        let rustc = project.command(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let rustc = rustc.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=cuda"]);
        rustc.args(["-Cstrip=symbols", DOUBLE, "-o"]).arg(double).quiet().run()?;
        let run = folder.join("run");
        project.shell.write_file(&run, include_str!("bundle/run.sh"))?;
        project.command("chmod").arg("755").arg(&run).quiet().run()?;
        let (folder, run) = (folder.display(), run.display());
        println!("{folder}: run {run} where there is a GPU and a Python with PyTorch 2.11");
        Ok(ExitCode::SUCCESS)
    }
}

/// The program that `cargo` builds for the target `name`.
pub(crate) fn built(cargo: Cmd<'_>, name: &str) -> Result<PathBuf> {
    Programs::build(cargo)?.of(name)
}

/// The messages of a cargo command about the programs that it has built.
pub(crate) struct Programs(String);

impl Programs {
    pub(crate) fn build(cargo: Cmd<'_>) -> Result<Self> {
        Ok(Self(cargo.arg("--message-format=json-render-diagnostics").read()?))
    }

    /// The program of the target `name`.
    pub(crate) fn of(&self, name: &str) -> Result<PathBuf> {
        let messages = self.0.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut built = messages.filter(|message| message["target"]["name"] == name);
        let program = built.find_map(|message| message["executable"].as_str().map(PathBuf::from));
        program.with_context(|| format!("cargo built no program `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_program_of_a_target_is_found_among_cargos_messages() {
        let messages = "no json\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"gpu\"},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"torch\"},\"executable\":\"/t/torch-1\"}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"gpu\"},\"executable\":\"/t/gpu-2\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        let built = Programs(messages.to_owned());
        assert_eq!(built.of("gpu").unwrap(), Path::new("/t/gpu-2"));
        assert!(built.of("cuda").is_err());
    }
}
