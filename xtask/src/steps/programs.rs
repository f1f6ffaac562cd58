//! Programs that are run as they are: examples and benchmarks.

use anyhow::Result;
use xshell::Cmd;

use crate::examples::Example;
use crate::metadata::Target;
use crate::steps::counted;
use crate::test::Checks;

pub(super) fn examples(checks: &Checks<'_>) -> Result<String> {
    run_examples(checks, false)
}

/// Runs every example that needs libtorch, or every one that does not, with the arguments it has
/// for tests.
pub(super) fn run_examples(checks: &Checks<'_>, needs_libtorch: bool) -> Result<String> {
    let examples = Example::all(&checks.project.workspace)?;
    let chosen = examples.iter().filter(|example| example.needs_libtorch == needs_libtorch);
    let runs = chosen.map(|example| {
        let run = example.cargo(checks.project.cargo("run"));
        let run = run.arg("--").args(&example.settings.test);
        Ok(run.envs(checks.provision.variables(example)?))
    });
    Ok(counted(checks.run_all(runs.collect::<Result<Vec<_>>>()?)?, "example"))
}

pub(super) fn benches(checks: &Checks<'_>) -> Result<String> {
    let workspace = &checks.project.workspace;
    let ordinary = workspace.targets_of("bench").filter(|(package, _)| !workspace.needs_libtorch(package));
    let runs = ordinary.map(|(package, bench)| {
        run_once(checks.project.cargo("test").args(["--release", "-p", &package.name]), bench)
    });
    Ok(counted(checks.run_all(runs)?, "benchmark"))
}

/// `cargo test`, because `cargo bench` adds `--bench`, which asks for measurements.
pub(super) fn run_once<'a>(cargo_test: Cmd<'a>, bench: &Target) -> Cmd<'a> {
    cargo_test.args(["--bench", &bench.name]).args(bench.feature_args()).args(["--", "--test"])
}
