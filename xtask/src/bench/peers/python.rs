//! A Python with the peers, on the PyTorch that libtorch is taken from.
//!
//! # Why
//!
//! The CUDA libraries that PyTorch is linked with are empty stand-ins. They are bound when they are called,
//! and never are. So the peers cost 20 MB to download instead of gigabytes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use xshell::Cmd;

use crate::project::Project;
use crate::setup::Packages;
use crate::setup::torch::{self, Environment};

/// The peers, and what they import: 20 MB to download. Without what else their packages say they need,
/// which is gigabytes for GPUs and nothing that is called.
const REQUIREMENTS: &str = include_str!("requirements.txt");

const SCRIPT: &str = "benches/peers/peers.py";

/// An interpreter, and what it is started with.
#[derive(Debug)]
pub(super) struct Python {
    interpreter: PathBuf,
    /// Where the package `torch` is.
    torch: PathBuf,
    /// Libraries for GPUs that are not there, without anything in them.
    stand_ins: PathBuf,
}

impl Python {
    pub(super) fn provide(project: &Project, environment: &Environment) -> Result<Self> {
        let torch = packages_around(environment.folder())?;
        let root = project.workspace.target_dir.join("peers");
        let packages = Packages {
            root: root.clone(),
            requirements: REQUIREMENTS.to_owned(),
            otherwise: "or go without this comparison".to_owned(),
        };
        packages.install(project, |_| Ok(()))?;
        let stand_ins = root.join("stand-ins");
        make_stand_ins(project, &torch.join("torch/lib/libtorch_python.so"), &stand_ins)?;
        Ok(Self { interpreter: packages.python(), torch, stand_ins })
    }

    /// The command that runs a peer.
    pub(super) fn peer<'a>(&self, project: &'a Project, peer: &str) -> Cmd<'a> {
        let command = project.command(&self.interpreter).args(["-B", SCRIPT, peer]).arg(&self.torch);
        // Where a GPU was seen, the stand-ins would be called.
        command.env("LD_LIBRARY_PATH", &self.stand_ins).env("CUDA_VISIBLE_DEVICES", "")
    }
}

/// The folder of packages that a libtorch belongs to, where it is that of a PyTorch.
fn packages_around(libraries: &Path) -> Result<PathBuf> {
    let library = libraries.join("libtorch_cpu.so");
    let library = library.canonicalize().with_context(|| format!("cannot find {}", library.display()))?;
    let torch = library.parent().and_then(Path::parent).unwrap_or(libraries);
    let packages = torch.parent().filter(|_| torch.join("__init__.py").exists());
    packages.map(Path::to_owned).with_context(|| {
        format!("{}: a libtorch without PyTorch; unset LIBTORCH to have one installed", torch.display())
    })
}

/// PyTorch's libraries are linked with those for GPUs, gigabytes that nothing calls where there is no
/// GPU; the loader only wants to find them.
fn make_stand_ins(project: &Project, library: &Path, folder: &Path) -> Result<()> {
    let ldd = project.command("ldd").arg(library).env_remove("LD_LIBRARY_PATH").quiet().read()?;
    project.shell.create_dir(folder)?;
    for name in missing(&ldd) {
        let compile = project.command(torch::compiler()).args(["-shared", "-nostdlib", "-x", "c++"]);
        let compile = compile.arg(format!("-Wl,-soname,{name}")).arg("/dev/null").arg("-o");
        compile.arg(folder.join(name)).quiet().run()?;
    }
    Ok(())
}

/// Names of the libraries that the loader did not find.
fn missing(ldd: &str) -> BTreeSet<&str> {
    ldd.lines().filter_map(|line| Some(line.trim().split_once(" => not found")?.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn libraries_that_were_not_found_are_named_once() {
        let ldd = "\tlinux-vdso.so.1 (0x1)\n\tlibb.so.2 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\
                   \tliba.so => not found\n\tlibb.so.2 => not found\n";
        assert_eq!(Vec::from_iter(missing(ldd)), ["liba.so", "libb.so.2"]);
        assert!(missing("\tstatically linked\n").is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_pytorch_is_found_through_links_and_a_bare_libtorch_is_refused() {
        let scratch = Scratch::new("peers-torch");
        scratch.file("site/torch/lib/libtorch_cpu.so", "");
        scratch.file("links/readme", "");
        let links = scratch.path("links");
        std::os::unix::fs::symlink(
            scratch.path("site/torch/lib/libtorch_cpu.so"),
            links.join("libtorch_cpu.so"),
        )
        .unwrap();
        let error = packages_around(&links).unwrap_err().to_string();
        assert!(error.contains("without PyTorch"), "{error}");
        scratch.file("site/torch/__init__.py", "");
        assert_eq!(packages_around(&links).unwrap(), scratch.path("site").canonicalize().unwrap());
        assert!(packages_around(scratch.root()).unwrap_err().to_string().starts_with("cannot find"));
    }
}
