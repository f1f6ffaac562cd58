//! What is checked with libtorch; everything else is checked without.

use std::path::Path;

use anyhow::{Context as _, Result};
use xshell::Cmd;

use super::{Checks, programs, suites};
use crate::examples::Example;
use crate::metadata::Package;
use crate::project::Project;
use crate::setup::torch::{self, Environment};

/// Sources of the shim, and its own test.
const SHIM: &str = "toma-torch/shim";

/// Whether git knows of changes in a package that needs libtorch that are not committed.
pub(super) fn is_changed(project: &Project) -> Result<bool> {
    let folders = project.workspace.with_libtorch.iter().filter_map(|package| package.manifest.parent());
    let git = project.command("git").args(["-c", "safe.directory=*", "status", "--porcelain", "--"]);
    Ok(!git.args(folders).quiet().read()?.is_empty())
}

/// A step of its own, so that its time and its failure are told apart from those of the tests.
pub(super) fn provide(checks: &Checks<'_>) -> Result<String> {
    Ok(checks.provision.libtorch()?.what.clone())
}

pub(super) fn test(checks: &Checks<'_>) -> Result<String> {
    let environment = checks.provision.libtorch()?;
    let runs = checks.project.workspace.with_libtorch.iter().flat_map(|package| {
        let cargo = || cargo_test(checks.project, package);
        // Each by its name: `--tests` would include those in examples, which have a step of their own.
        let names = package.targets_of("test").flat_map(|test| ["--test", &test.name]);
        let tests = suites::quiet(cargo().arg("--lib").args(names));
        let docs = suites::quiet(cargo().arg("--doc"));
        let benches = package.targets_of("bench").map(move |bench| programs::run_once(cargo(), bench));
        [tests, docs].into_iter().chain(benches)
    });
    checks.pass(runs.map(|cargo| environment.give(cargo)))
}

/// With debug assertions, like all tests; `tch` and the examples' own packages are optimized in that profile, too.
pub(super) fn cargo_test<'a>(project: &'a Project, package: &Package) -> Cmd<'a> {
    project.cargo("test").args(["-p", &package.name])
}

/// The tests in the examples, then the examples.
pub(super) fn examples(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let of_torch = Example::all(&project.workspace)?.into_iter().filter(|example| example.needs_libtorch);
    let runs = of_torch.map(|example| {
        let variables = checks.provision.variables(&example)?;
        let chosen = example.choice();
        let tests = suites::quiet(project.cargo("test").args(chosen)).envs(variables.clone());
        let run = project.cargo("run").args(chosen).arg("--").args(&example.settings.test).envs(variables);
        Ok([tests, run])
    });
    let runs = runs.collect::<Result<Vec<_>>>()?;
    checks.pass(runs.into_iter().flatten())
}

/// Runs the shim's own test with the address and undefined behavior sanitizers, which notice what a
/// test from Rust cannot see, and with the thread sanitizer. libtorch itself is not instrumented: what the last one
/// sees is the shim.
pub(super) fn shim(checks: &Checks<'_>) -> Result<String> {
    let (project, environment) = (checks.project, checks.provision.libtorch()?);
    for (name, sanitizers) in [("shim-test", "address,undefined"), ("shim-test-threads", "thread")] {
        let program = project.workspace.target_dir.join("xtask").join(name);
        compile(project, environment, &program, sanitizers)
            .with_context(|| format!("the shim did not compile with the sanitizers {sanitizers}"))?;
        // The system says no to sizes beyond it, and the sanitizers are to say the same.
        let options = "allocator_may_return_null=1";
        let test = project.command(&program).env("ASAN_OPTIONS", options).env("TSAN_OPTIONS", options);
        environment.give(test).run().with_context(|| format!("the shim's own test under {sanitizers}"))?;
    }
    Ok(String::new())
}

/// Compiles the shim with its test, unless that has been done with the same sources.
fn compile(project: &Project, environment: &Environment, program: &Path, sanitizers: &str) -> Result<()> {
    let files = project.shell.read_dir(SHIM)?;
    let sources = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "cpp"));
    // Lines are all that sanitizers tell. libtorch has no type information for the undefined behavior
    // sanitizer's `vptr`.
    let compile =
        project.command(torch::compiler()).args(["-std=c++17", "-g1", "-O1", "-Wall", "-Wextra", "-DNDEBUG"]);
    let compile = compile.arg(format!("-fsanitize={sanitizers}"));
    // The allocator's fence is unknown to the sanitizer of threads, and g++ says so.
    let compile = compile.args(["-fno-sanitize=vptr", "-fno-sanitize-recover", "-Wno-tsan"]);
    let compile = compile.arg("-isystem").arg(environment.folder().join("../include"));
    let compile = compile.args(sources).arg("-o").arg(program).arg("-L").arg(environment.folder());
    // Of libraries that only libtorch's own libraries refer to.
    let compile = compile.args(["-Wl,--allow-shlib-undefined", "-ltorch_cpu", "-lc10"]);
    let texts = files.iter().map(|file| project.shell.read_file(file)).collect::<Result<Vec<_>, _>>()?;
    let (stamp, stamped) = (program.with_extension("stamp"), format!("{compile}\n{}", texts.concat()));
    if program.exists() && project.shell.read_file(&stamp).is_ok_and(|old| old == stamped) {
        return Ok(());
    }
    project.shell.remove_path(&stamp)?;
    compile.run()?;
    Ok(project.shell.write_file(stamp, stamped)?)
}
