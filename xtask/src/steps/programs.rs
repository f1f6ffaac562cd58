//! Programs that are run as they are: examples and benchmarks.

use anyhow::Result;

use crate::demo;
use crate::steps::counted;
use crate::test::Checks;

pub(super) fn examples(checks: &Checks<'_>) -> Result<String> {
    let examples = checks.project.workspace.targets_of("example");
    let runs = examples.map(|(package, example)| demo::run_example(checks.project, package, example));
    Ok(counted(checks.run_all(runs)?, "example"))
}

pub(super) fn benches(checks: &Checks<'_>) -> Result<String> {
    // `cargo test`, because `cargo bench` adds `--bench`, which asks for measurements.
    let runs = checks.project.workspace.targets_of("bench").map(|(package, bench)| {
        let cargo = checks.project.cargo("test").args(["--release", "-p", &package.name]);
        cargo.args(["--bench", &bench.name]).args(bench.feature_args()).args(["--", "--test"])
    });
    Ok(counted(checks.run_all(runs)?, "benchmark"))
}
