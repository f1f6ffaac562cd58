//! `cargo xtask card`: libtorch's CUDA half on a machine without a GPU, over the paper card in the folder `card`.
//!
//! # Why
//!
//! Programs are linked with libtorch's CPU part, and see the card if its library is preloaded. So one build serves
//! both. Cargo preloads the library by a runner: in cargo's own environment it would be loaded into every compiler as
//! well.

use std::env::consts::ARCH;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use xshell::Cmd;

use super::environment::export;
use super::{Build, Environment, compiler, exports_or};
use crate::project::Project;
use crate::setup::{Packages, run, stamped};

/// Folder of the card's sources.
const SOURCES: &str = "card";

/// A fiftieth of these bytes is the memory of libtorch in the checks of `tests/gpu`: 1.3 GiB. Memory that no kernel has
/// written is not zero.
const SETTINGS: [(&str, &str); 2] = [("PAPER_CARD_BYTES", "64G"), ("PAPER_CARD_POISON", "0x41")];

#[derive(Args, Debug)]
pub(crate) struct Card {
    /// The cargo subcommand to run with libtorch, whose programs see the card, with its arguments
    #[arg(last = true, value_name = "CARGO ARGS")]
    cargo: Vec<String>,
}

impl Card {
    pub(crate) fn run(&self, build: Option<Build>) -> Result<ExitCode> {
        let project = Project::find()?;
        let card = built(&project, &super::environment(&project, build.or(Some(Build::Cpu)))?)?;
        let cargo = |subcommand: &str| card.environment.give(project.cargo(subcommand)).envs(card.runner());
        exports_or(&self.cargo, &card.exports(), cargo)
    }
}

/// The card, built for a libtorch.
#[derive(Debug)]
pub(crate) struct Built {
    /// Environment of that libtorch, with the card's libraries before its own.
    pub(crate) environment: Environment,
}

impl Built {
    /// The library that is preloaded.
    fn library(&self) -> PathBuf {
        self.environment.folder().join("libpapercard.so")
    }

    /// Lets a program see the card.
    pub(crate) fn give<'a>(&self, program: Cmd<'a>) -> Cmd<'a> {
        self.environment.give(program).env("LD_PRELOAD", self.library())
    }

    /// Lets the checks of `tests/gpu` see the card.
    pub(crate) fn checks<'a>(&self, program: Cmd<'a>) -> Cmd<'a> {
        self.give(program).envs(SETTINGS)
    }

    /// The variable by which cargo starts programs with the card.
    fn runner(&self) -> [(String, OsString); 1] {
        let name = format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", ARCH.to_uppercase());
        [(name, format!("env LD_PRELOAD={}", self.library().display()).into())]
    }

    /// Lines for a shell.
    fn exports(&self) -> String {
        let [(runner, value)] = self.runner();
        let own = [export(&runner, &value, ""), export("PAPER_CARD", self.library().as_os_str(), "")];
        self.environment.exports() + &own.concat()
    }
}

/// Builds the card for a libtorch, unless it is already built from the same sources.
pub(crate) fn built(project: &Project, libtorch: &Environment) -> Result<Built> {
    let torch = with_cuda(libtorch.folder())?;
    let compiler = runs(project, compiler())?;
    let root = project.workspace.target_dir.join("card");
    let (headers, out) = (headers(project, &root)?, root.join("lib"));
    let text = format!("{}\n{}{}", torch.display(), compiler.display(), project.texts(SOURCES)?);
    stamped(&root, &text, || {
        project.heading("build the paper card");
        let script = project.workspace.root.join(SOURCES).join("build.py");
        let build = project.command("python3").arg(script).args([&torch, &headers, &out]);
        ensure!(run(build.env("CXX", &compiler)), "the paper card was not built, see above");
        Ok(())
    })?;
    let mut environment = libtorch.clone();
    environment.libraries.insert(0, out);
    Ok(Built { environment })
}

/// Returns the C++ compiler, if it runs.
fn runs(project: &Project, compiler: OsString) -> Result<OsString> {
    ensure!(
        project.command(&compiler).arg("--version").quiet().ignore_stdout().ignore_stderr().run().is_ok(),
        "no C++ compiler `{}`, with which the paper card is built: install one, or set CXX",
        compiler.display()
    );
    Ok(compiler)
}

/// The folder with the real libraries of libtorch. An installation for the CPU has links to the CPU part only.
fn with_cuda(folder: &Path) -> Result<PathBuf> {
    let library = folder.join("libtorch_cpu.so");
    let library = library.canonicalize().with_context(|| format!("no {}", library.display()))?;
    let torch = library.parent().expect("a file is in a folder").to_owned();
    ensure!(
        torch.join("libtorch_cuda.so").exists(),
        "libtorch in {} has no CUDA half, libtorch_cuda.so, which the paper card runs: unset LIBTORCH and \
         LIBTORCH_USE_PYTORCH to have one installed that has",
        torch.display()
    );
    Ok(torch)
}

/// Installs the headers into a folder of their own: NVIDIA's libraries next to libtorch would be found before the
/// card's.
fn headers(project: &Project, root: &Path) -> Result<PathBuf> {
    let packages = Packages {
        root: root.join("headers"),
        requirements: include_str!("../requirements/cuda-headers.txt").to_owned(),
        otherwise: "or do without the paper card".to_owned(),
    };
    Ok(packages.install(project, &|_| Ok(()))?.join("nvidia/cu13/include"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn the_card_needs_libtorchs_cuda_half_where_its_files_really_are() {
        let scratch = Scratch::new("card");
        scratch.file("packages/lib/libtorch_cpu.so", "");
        fs::create_dir_all(scratch.path("links")).unwrap();
        let [real, link] =
            ["packages/lib", "links"].map(|folder| scratch.path(folder).join("libtorch_cpu.so"));
        std::os::unix::fs::symlink(real, link).unwrap();
        let error = with_cuda(&scratch.path("links")).unwrap_err().to_string();
        assert!(error.contains("packages/lib has no CUDA half"), "{error}");
        scratch.file("packages/lib/libtorch_cuda.so", "");
        assert!(with_cuda(&scratch.path("links")).unwrap().ends_with("packages/lib"));
        assert!(with_cuda(&scratch.path("elsewhere")).unwrap_err().to_string().starts_with("no "));
    }

    #[test]
    fn the_card_needs_a_compiler() {
        let error = runs(&Project::find().unwrap(), "no-such-c++".into()).unwrap_err().to_string();
        assert!(error.starts_with("no C++ compiler `no-such-c++`"), "{error}");
    }

    #[test]
    fn a_shell_gets_a_runner_for_cargo_and_the_library() {
        let environment = Environment {
            description: String::new(),
            libtorch: None,
            libraries: vec!["/it's here/card".into()],
        };
        let text = Built { environment }.exports();
        let mut lines = text.lines().skip(1);
        let runner = lines.next().unwrap();
        assert!(runner.ends_with("_RUNNER='env LD_PRELOAD=/it'\\''s here/card/libpapercard.so'"), "{runner}");
        assert_eq!(lines.next(), Some("export PAPER_CARD='/it'\\''s here/card/libpapercard.so'"));
    }
}
