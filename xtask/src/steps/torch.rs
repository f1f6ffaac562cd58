//! The package that needs libtorch, which no other step touches.

use std::env;

use anyhow::{Context as _, Result};

use super::lints;
use crate::project::Project;
use crate::test::Checks;
use crate::torch::{self, Environment};

const PACKAGE: &str = "toma-torch";

/// Sources of the shim, and its own test.
const SHIM: &str = "toma-torch/shim";

pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    lints::needs(checks.project, "clippy", "clippy")?;
    let environment = torch::for_checks(checks.project)?;
    let cargo = |subcommand| checks.project.cargo(subcommand).args(["-p", PACKAGE]);
    let clippy =
        cargo("clippy").args(["--all-targets", "--", "-D", "warnings", "-D", "clippy::incompatible_msrv"]);
    let doc = lints::strict_doc(cargo("doc").arg("--document-private-items"));
    let test = cargo("test").args(["--no-fail-fast", "--", "--quiet"]);
    checks.run_all([clippy, doc, test].map(|cargo| environment.give(cargo)))?;
    sanitize(checks.project, &environment)?;
    Ok("shim under the address sanitizer".to_owned())
}

/// Runs the shim's own test with the address and undefined behavior sanitizers, which notice what a
/// test from Rust cannot see.
fn sanitize(project: &Project, environment: &Environment) -> Result<()> {
    let program = project.workspace.target_dir.join("toma-torch-shim-test");
    let compiler = env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let mut sources = project.shell.read_dir(SHIM)?;
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "cpp"));
    // libtorch has no type information for the undefined behavior sanitizer's `vptr`.
    let compile = project.command(compiler).args(["-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-DNDEBUG"]);
    let compile =
        compile.args(["-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover"]);
    let compile = compile.arg("-isystem").arg(environment.folder().join("../include"));
    let compile = compile.args(sources).arg("-o").arg(&program).arg("-L").arg(environment.folder());
    // Of libraries that only libtorch's own libraries refer to.
    let compile = compile.args(["-Wl,--allow-shlib-undefined", "-ltorch_cpu", "-lc10"]);
    compile.run().context("the shim did not compile with the address sanitizer")?;
    // The system says no to sizes beyond it, and the sanitizer is to say the same.
    let test = project.command(program).env("ASAN_OPTIONS", "allocator_may_return_null=1");
    environment.give(test).run().context("the shim's own test")
}
