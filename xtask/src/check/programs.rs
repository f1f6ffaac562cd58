//! Examples and benchmarks, which the checks only run.

use anyhow::Result;
use xshell::Cmd;

use super::suites::OPTIMIZED;
use super::{Checks, counted};
use crate::bench::bundle;
use crate::examples::Example;
use crate::metadata::Target;
use crate::project::Features;

/// Runs the examples, built like the tests: `cargo run` takes one package, whose features alone would rebuild the
/// dependencies.
pub(super) fn examples(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let examples = Example::all(&project.workspace)?.into_iter().filter(|example| !example.needs_libtorch);
    let runs = examples.map(|example| {
        let name = &example.target.name;
        let build = project.cargo_all("build", Features::All).args(["--example", name]);
        let run = project.command(bundle::built(build, name)?).args(&example.settings.test);
        Ok(run.envs(checks.provision.variables(&example)?))
    });
    Ok(counted(checks.run_all(runs.collect::<Result<Vec<_>>>()?)?, "example"))
}

/// Runs each benchmark once, in the build of the step `optimized`.
pub(super) fn benches(checks: &Checks<'_>) -> Result<String> {
    let project = checks.project;
    let benches = project.workspace.packages.iter().flat_map(|package| package.targets_of("bench"));
    let runs = benches.map(|bench| run_once(project.cargo_all("test", Features::All).args(OPTIMIZED), bench));
    Ok(counted(checks.run_all(runs)?, "benchmark"))
}

/// Uses `cargo test`, because `cargo bench` adds `--bench`, which requests measurements.
pub(super) fn run_once<'a>(cargo_test: Cmd<'a>, bench: &Target) -> Cmd<'a> {
    cargo_test.args(["--bench", &bench.name]).args(["--", "--test"])
}
