//! Programs that are run as they are: examples and benchmarks.

use anyhow::Result;
use xshell::Cmd;

use super::Checks;
use super::steps::counted;
use crate::examples::Example;
use crate::metadata::Target;
use crate::project::Features;

/// Built as the tests are, with all features: other features, or the optimizer, would be a build of its own.
pub(super) fn examples(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let examples = Example::all(&project.workspace)?.into_iter().filter(|example| !example.needs_libtorch);
    let runs = examples.map(|example| {
        let run = project.cargo("run").args(["-p", &example.package.name, "--example", &example.target.name]);
        let run = run.args(Features::All.args(&[example.package])).arg("--").args(&example.settings.test);
        Ok(run.envs(checks.provision.variables(&example)?))
    });
    Ok(counted(checks.run_all(runs.collect::<Result<Vec<_>>>()?)?, "example"))
}

/// Optimized, because one of them plays whole runs by the thousand, and with all features, as the optimized tests
/// are.
pub(super) fn benches(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let benches = project.workspace.packages.iter().flat_map(|package| package.targets_of("bench"));
    let runs =
        benches.map(|bench| run_once(project.cargo_all("test", Features::All).arg("--release"), bench));
    Ok(counted(checks.run_all(runs)?, "benchmark"))
}

/// `cargo test`, because `cargo bench` adds `--bench`, which asks for measurements.
pub(super) fn run_once<'a>(cargo_test: Cmd<'a>, bench: &Target) -> Cmd<'a> {
    cargo_test.args(["--bench", &bench.name]).args(["--", "--test"])
}
