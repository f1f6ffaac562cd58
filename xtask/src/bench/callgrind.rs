//! Instructions per call, counted by valgrind: the same number on a busy machine as on an idle one.
//!
//! The benchmark `overhead` lists its cases (`overhead list`) and runs one of them a given number of times
//! (`overhead count CASE N`) and nothing else. The instructions of 2 n calls minus those of n calls are the
//! instructions of n calls: start, warm-up and end cancel out.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::bundle::built;
use crate::project::Project;

/// The benchmark with the commands `list` and `count`.
const BENCH: &str = "overhead";

/// Prints the number of instructions per call of each case; `only` selects the cases whose name contains it.
pub(super) fn count(project: &Project, only: &str, calls: u64) -> Result<()> {
    let (package, bench) = project.workspace.target("bench", BENCH)?;
    let cargo = project.cargo("bench").args(["-p", &package.name, "--bench", BENCH, "--no-run"]);
    let program = built(cargo.args(bench.feature_args()), BENCH)?;
    let listed = project.command(&program).arg("list").read()?;
    let cases: Vec<_> = listed.lines().filter(|case| case.contains(only)).collect();
    ensure!(!cases.is_empty(), "benchmark `{BENCH}`: no case with `{only}` in its name among:\n{listed}");
    for case in cases {
        let [once, twice] = [calls, 2 * calls].map(|calls| collect(project, &program, case, calls));
        // A case that does nothing may differ by a few instructions of start-up either way.
        let tenths = twice?.saturating_sub(once?) * 10 / calls;
        println!("{case:<40}  {:>7}.{} instructions per call", tenths / 10, tenths % 10);
    }
    Ok(())
}

/// Instructions of one run of the benchmark.
fn collect(project: &Project, program: &Path, case: &str, calls: u64) -> Result<u64> {
    let valgrind = project.command("valgrind").args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let run = valgrind.arg(program).arg("count").arg(case).arg(calls.to_string());
    let report = run.ignore_stdout().quiet().read_stderr().context("--instructions needs valgrind")?;
    total(&report).with_context(|| format!("case `{case}`: no total in valgrind's output:\n{report}"))
}

/// The total that callgrind reports: `==12== Collected : 4021337`.
fn total(report: &str) -> Option<u64> {
    report.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_total_is_read_from_the_report() {
        assert_eq!(total("==12== Events    : Ir\n==12== Collected : 4021337\n==12== \n"), Some(4_021_337));
        assert_eq!(total("==12== Events    : Ir\n"), None);
    }
}
