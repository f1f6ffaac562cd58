//! Checks that need libtorch; all others run without.
//!
//! # Why
//!
//! By day tch is compiled only twice. Lints and documentation see it through `doc-only`, which needs no libtorch and no
//! C++. Tests, benchmarks that run once and examples share one debug build, because an optimized one would be a third.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context as _, Result, ensure};
use xshell::Cmd;

use super::{Checks, counted, programs, suites};
use crate::bench::bundle::Programs;
use crate::examples::Example;
use crate::project::Project;
use crate::setup::torch::{self, Environment};

/// The package that is tested with libtorch.
const TESTED: [&str; 2] = ["-p", "toma-torch"];
/// Folder of the shim, and of its own test.
const SHIM: &str = "toma-torch/shim";
/// Sources that are compiled as one unit, because most of the time goes to libtorch's headers.
const UNITS: [&str; 2] = ["shim.cpp", "test.cpp"];

/// A step of its own, so that its time and its failure are separate from those of the tests.
pub(super) fn provide(checks: &Checks<'_>) -> Result<String> {
    Ok(checks.provision.libtorch()?.description.clone())
}

pub(super) fn test(checks: &Checks<'_>) -> Result<String> {
    let (project, environment) = (checks.project, checks.provision.libtorch()?);
    let packages: Vec<_> = project.workspace.with_libtorch.iter().collect();
    let tests = suites::programs(checks, || environment.give(cargo_test(project)), &packages, &[]);
    let docs = checks.pass([environment.give(suites::quiet(cargo_test(project).arg("--doc")))]);
    docs.and(tests)
}

/// Runs every benchmark once.
pub(super) fn benches(checks: &Checks<'_>) -> Result<String> {
    let environment = checks.provision.libtorch()?;
    let runs = checks.project.workspace.with_libtorch.iter().flat_map(|package| {
        let run = |bench| programs::run_once(cargo_test(checks.project), bench);
        package.targets_of("bench").map(move |bench| environment.give(run(bench)))
    });
    Ok(counted(checks.run_all(runs)?, "benchmark"))
}

/// The tests, with debug assertions like all tests.
pub(super) fn cargo_test(project: &Project) -> Cmd<'_> {
    project.cargo("test").args(TESTED)
}

/// Runs the examples and the tests in them, two at a time.
pub(super) fn examples(checks: &Checks<'_>) -> Result<String> {
    let (project, environment) = (checks.project, checks.provision.libtorch()?);
    let examples = Example::all(&project.workspace)?;
    let of_torch: Vec<_> = examples.iter().filter(|example| example.needs_libtorch).collect();
    // With the features of shared packages in the tests, so that those packages are not compiled again.
    let cargo = |subcommand| environment.give(project.cargo(subcommand).args(TESTED));
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
    Ok(counted(checks.run_in_pairs(runs.into_iter().flatten())?, "run"))
}

/// Runs the shim's own test with the address and undefined behavior sanitizers, which detect errors that a test from
/// Rust cannot see, and with the thread sanitizer. libtorch itself is not instrumented, so the thread sanitizer reports
/// only errors of the shim.
pub(super) fn shim(checks: &Checks<'_>) -> Result<String> {
    let (project, environment) = (checks.project, checks.provision.libtorch()?);
    let programs = [("shim-test", "address,undefined"), ("shim-test-threads", "thread")];
    let programs = programs.map(|(name, sanitizers)| Program {
        path: project.workspace.target_dir.join("xtask").join(name),
        sanitizers,
    });
    // Both at once: each compiler keeps one core busy.
    let compiling = programs.each_ref().map(|program| program.compile(project, environment));
    let compiled = compiling.map(|compiling| compiling?.finish(project));
    compiled.into_iter().collect::<Result<()>>()?;
    for Program { path, sanitizers } in programs {
        // The system refuses impossible sizes, and the sanitizers should refuse them, too.
        let options = "allocator_may_return_null=1";
        let test = project.command(&path).env("ASAN_OPTIONS", options).env("TSAN_OPTIONS", options);
        environment.give(test).run().with_context(|| format!("the shim's own test under {sanitizers}"))?;
    }
    Ok(String::new())
}

/// The shim with its test, under some sanitizers.
struct Program {
    path: PathBuf,
    sanitizers: &'static str,
}

impl Program {
    /// Starts the compiler, unless the program is already built from the same sources.
    fn compile(&self, project: &Project, environment: &Environment) -> Result<Compiling> {
        let files = project.shell.read_dir(SHIM)?.into_iter().filter(|path| path.is_file());
        let compile = self.compiler(project, environment);
        let texts = files.map(|file| project.shell.read_file(file)).collect::<Result<Vec<_>, _>>()?;
        let (stamp, stamped) = (self.path.with_extension("stamp"), format!("{compile}\n{}", texts.concat()));
        let is_done = self.path.exists() && project.shell.read_file(&stamp).is_ok_and(|old| old == stamped);
        let compiler = if is_done {
            None
        } else {
            project.shell.remove_path(&stamp)?;
            eprintln!("$ {compile}");
            Some(Command::from(compile).spawn().context("the compiler did not start")?)
        };
        Ok(Compiling { compiler, stamp, stamped, sanitizers: self.sanitizers })
    }

    fn compiler<'a>(&self, project: &'a Project, environment: &Environment) -> Cmd<'a> {
        let [shim, test] = UNITS.map(|unit| Path::new(SHIM).join(unit));
        // Reports of sanitizers need only line numbers. libtorch has no type information for the undefined behavior
        // sanitizer's `vptr`.
        let settled = ["-std=c++17", "-g1", "-Wall", "-Wextra", "-DNDEBUG"];
        let compile = project.command(torch::compiler()).args(settled);
        let compile = compile.arg(format!("-fsanitize={}", self.sanitizers));
        // The thread sanitizer does not support the allocator's fence, and g++ warns about that.
        let compile = compile.args(["-fno-sanitize=vptr", "-fno-sanitize-recover", "-Wno-tsan"]);
        let compile = compile.arg("-isystem").arg(environment.folder().join("../include"));
        let compile = compile.arg("-I").arg(Path::new(SHIM).join("cuda"));
        let compile = compile.arg("-include").arg(shim).arg(test).arg("-o").arg(&self.path);
        let compile = compile.arg("-L").arg(environment.folder());
        // Allows undefined symbols of libraries that only libtorch's own libraries refer to.
        compile.args(["-Wl,--allow-shlib-undefined", "-ltorch_cpu", "-lc10"])
    }
}

/// A running compiler, or none if nothing is to be compiled.
struct Compiling {
    compiler: Option<Child>,
    stamp: PathBuf,
    stamped: String,
    sanitizers: &'static str,
}

impl Compiling {
    fn finish(self, project: &Project) -> Result<()> {
        let Some(mut compiler) = self.compiler else { return Ok(()) };
        let status = compiler.wait()?;
        let sanitizers = self.sanitizers;
        ensure!(status.success(), "the shim did not compile with the sanitizers {sanitizers}: {status}");
        Ok(project.shell.write_file(self.stamp, self.stamped)?)
    }
}
