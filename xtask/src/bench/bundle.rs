//! `cargo xtask gpu-bundle DIR`: checks and benchmarks in one folder, to be run on a machine with a
//! GPU that has neither Rust nor a network.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::Value;
use xshell::Cmd;

use crate::project::Project;
use crate::setup::torch::{self, Build, Environment};

/// More would be a burden to carry about.
const LARGEST_BYTES: u64 = 60 << 20;

/// The source of the library that stands in for the CUDA driver, which the tests elsewhere compile
/// themselves.
const DOUBLE: &str = "toma-cuda/tests/cuda/double.rs";

const RUN: &str = include_str!("bundle/run.sh");

/// What goes into the folder: a target and what makes cargo build it.
struct Program {
    name: &'static str,
    args: &'static [&'static str],
}

const PROGRAMS: &[Program] = &[
    Program { name: "gpu", args: &["test", "-p", "toma-torch", "--test"] },
    Program { name: "torch", args: &["test", "-p", "toma-torch", "--test"] },
    Program { name: "cuda", args: &["test", "-p", "toma-cuda", "--test"] },
    Program { name: "tensors", args: &["bench", "-p", "toma-torch", "--bench"] },
    Program { name: "overhead", args: &["bench", "-p", "toma", "--bench"] },
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
        PROGRAMS.iter().try_for_each(|program| bundle.add(program))?;
        bundle.add_double()?;
        bundle.add_run()?;
        bundle.report()?;
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
    /// Makes the folder, or empties it of an older bundle; anything else in it is somebody's.
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
    fn add(&self, program: &Program) -> Result<()> {
        self.project.heading(program.name);
        let (subcommand, args) = program.args.split_first().expect("each begins with a subcommand");
        let profile: &[&str] = if *subcommand == "test" { &["--release"] } else { &[] };
        let cargo = self.project.cargo(subcommand).args(args).arg(program.name).args(profile).arg("--no-run");
        let built = built(self.environment.give(cargo), program.name)?;
        let target = self.folder.join(program.name);
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

    fn report(&self) -> Result<()> {
        let bytes = bytes_in(&self.folder)?;
        let (folder, mib) = (self.folder.display(), bytes.div_ceil(1 << 20));
        ensure!(bytes < LARGEST_BYTES, "{folder}: {mib} MiB; at most {} are wanted", LARGEST_BYTES >> 20);
        println!("{folder}: {mib} MiB; run {folder}/run where there is a GPU and a Python with PyTorch 2.11");
        Ok(())
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

fn bytes_in(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in folder.read_dir()? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_in(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
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

    #[test]
    fn bytes_are_those_of_all_files_below() {
        let scratch = crate::tests::Scratch::new("bundle");
        scratch.file("a", &"x".repeat(10));
        scratch.file("inner/b", &"x".repeat(5));
        let bytes = bytes_in(scratch.root()).unwrap();
        assert_eq!(bytes, 15);
    }
}
