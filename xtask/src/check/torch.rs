//! Checks that need libtorch; all others run without.
//!
//! # Why
//!
//! By day tch is compiled twice. Lints and documentation see it through `doc-only`, which needs no libtorch and no C++.
//! Tests and examples share one debug build, and so do benchmarks that run once at night: an optimized build would be a
//! third.

use std::path::Path;

use anyhow::{Context as _, Result};
use xshell::Cmd;

use super::{Checks, counted, programs, suites};
use crate::bench::bundle::Programs;
use crate::examples::Example;
use crate::project::Project;
use crate::setup::stamped;
use crate::setup::torch::{self, Environment};

/// The package that is tested with libtorch.
const TESTED: [&str; 2] = ["-p", "toma-torch"];
/// Folder of the shim, and of its own test.
const SHIM: &str = "toma-torch/shim";

/// A step of its own, so that its time and its failure are separate from those of the tests.
pub(super) fn provide(checks: &Checks<'_>) -> Result<String> {
    Ok(checks.provision.libtorch()?.description.clone())
}

pub(super) fn test(checks: &Checks<'_>) -> Result<String> {
    let cargo = cargo(checks)?;
    let packages: Vec<_> = checks.project.workspace.with_libtorch.iter().collect();
    let tests = suites::programs(checks, || cargo("test"), &packages, &[]);
    let docs = checks.pass([suites::quiet(cargo("test").arg("--doc"))]);
    docs.and(tests)
}

/// Runs every benchmark once.
pub(super) fn benches(checks: &Checks<'_>) -> Result<String> {
    let (packages, cargo) = (&checks.project.workspace.with_libtorch, cargo(checks)?);
    let benches = packages.iter().flat_map(|package| package.targets_of("bench"));
    let runs = benches.map(|bench| programs::run_once(cargo("test"), bench));
    Ok(counted(checks.run_all(runs)?, "benchmark"))
}

/// `cargo SUBCOMMAND` for the tested package, with libtorch. Tests have debug assertions, like all tests.
pub(super) fn cargo<'a>(checks: &'a Checks<'_>) -> Result<impl Fn(&str) -> Cmd<'a>> {
    let environment = checks.provision.libtorch()?;
    Ok(|subcommand: &str| environment.give(checks.project.cargo(subcommand).args(TESTED)))
}

/// Runs the examples and the tests in them, two at a time.
pub(super) fn examples(checks: &Checks<'_>) -> Result<String> {
    let (project, cargo) = (checks.project, cargo(checks)?);
    let examples = Example::all(&project.workspace)?;
    let of_torch: Vec<_> = examples.iter().filter(|example| example.needs_libtorch).collect();
    // With the features of shared packages in the tests, so that those packages are not compiled again.
    let all = of_torch.iter().flat_map(|example| example.choice());
    cargo("test").arg("--no-run").args(all.clone()).run()?;
    let built = Programs::build(cargo("build").args(all))?;
    let runs = of_torch.iter().map(|example| {
        let mut variables = checks.provision.variables(example)?;
        // Two programs run at a time, and libtorch's threads wait for each other by spinning.
        variables.push(("OMP_NUM_THREADS".to_owned(), "1".into()));
        let tests = suites::quiet(cargo("test").args(example.choice())).envs(variables.clone());
        let program = built.of(&example.target.name)?;
        Ok([tests, project.command(program).args(&example.settings.test).envs(variables)])
    });
    let runs = runs.collect::<Result<Vec<_>>>()?;
    Ok(counted(checks.run_in_pairs(runs.into_iter().flatten())?.len(), "run"))
}

/// Runs the shim's own test with the address and undefined behavior sanitizers, which detect errors that a test from
/// Rust cannot see, and with the thread sanitizer. libtorch itself is not instrumented, so the thread sanitizer reports
/// only errors of the shim.
pub(super) fn shim(checks: &Checks<'_>) -> Result<String> {
    let (project, environment) = (checks.project, checks.provision.libtorch()?);
    let root = project.workspace.target_dir.join("xtask/shim");
    let programs = ["address,undefined", "thread"].map(|sanitizers| (root.join(sanitizers), sanitizers));
    let compilers = programs.each_ref().map(|(path, under)| compiler(project, environment, path, under));
    let content = format!("{}\n{}\n{}", compilers[0], compilers[1], project.texts(SHIM)?);
    // Both at once: each compiler keeps one core busy.
    stamped(&root, &content, || checks.run_in_pairs(compilers).map(drop))?;
    for (path, sanitizers) in programs {
        // The system refuses impossible sizes, and the sanitizers should refuse them, too.
        let options = "allocator_may_return_null=1";
        let test = project.command(&path).env("ASAN_OPTIONS", options).env("TSAN_OPTIONS", options);
        environment.give(test).run().with_context(|| format!("the shim's own test under {sanitizers}"))?;
    }
    Ok(String::new())
}

/// The compiler of the shim with its test, under some sanitizers.
fn compiler<'a>(project: &'a Project, environment: &Environment, path: &Path, sanitizers: &str) -> Cmd<'a> {
    // Reports of sanitizers need only line numbers. libtorch has no type information for the undefined behavior
    // sanitizer's `vptr`.
    let settled = ["-std=c++17", "-g1", "-Wall", "-Wextra", "-DNDEBUG"];
    let compile = project.command(torch::compiler()).args(settled);
    let compile = compile.arg(format!("-fsanitize={sanitizers}"));
    // The thread sanitizer does not support the allocator's fence, and g++ warns about that.
    let compile = compile.args(["-fno-sanitize=vptr", "-fno-sanitize-recover", "-Wno-tsan"]);
    let compile = compile.arg("-isystem").arg(environment.folder().join("../include"));
    // As one unit, because most of the time goes to libtorch's headers.
    let compile = compile.args([&format!("-I{SHIM}/cuda"), "-include", &format!("{SHIM}/shim.cpp")]);
    let compile = compile.arg(format!("{SHIM}/test.cpp")).arg("-o").arg(path);
    let compile = compile.arg("-L").arg(environment.folder());
    // Allows undefined symbols of libraries that only libtorch's own libraries refer to.
    compile.args(["-Wl,--allow-shlib-undefined", "-ltorch_cpu", "-lc10"])
}
