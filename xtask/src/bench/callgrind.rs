//! Instructions per call, counted by valgrind: the same number on a busy machine as on an idle one.
//!
//! The benchmark `overhead` lists its cases (`overhead list`) and runs one of them a given number of
//! times (`overhead count CASE N`) and nothing else. A run of 2 n calls less a run of n calls leaves n
//! calls: starting, warming up and ending cancel out.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::bundle::built;
use crate::project::Project;

/// The benchmark that knows `list` and `count`.
const BENCH: &str = "overhead";

/// Prints how many instructions a call of each case takes; `only` keeps the cases whose name contains it.
pub(super) fn count(project: &Project, only: Option<&str>, calls: u64) -> Result<()> {
    ensure!(
        project.has("valgrind"),
        "valgrind: not found; --instructions needs it (your system's package manager has it)"
    );
    let bench = build(project)?;
    let cases = cases(&project.command(&bench).arg("list").read()?, only)?;
    let width = cases.iter().map(String::len).max().unwrap_or_default();
    println!("{:<width$}  instructions/call", "case");
    for case in cases {
        let [once, twice] = [calls, 2 * calls].map(|calls| collect(project, &bench, &case, calls));
        println!("{case:<width$}  {:>17}", per_call(once?, twice?, calls));
    }
    Ok(())
}

/// Builds the benchmark as `cargo bench` does, and tells where it is.
fn build(project: &Project) -> Result<PathBuf> {
    let (package, bench) = project.workspace.target("bench", BENCH)?;
    let cargo = project.cargo("bench").args(["-p", &package.name, "--bench", BENCH, "--no-run"]);
    built(cargo.args(bench.feature_args()), BENCH)
}

fn cases(listed: &str, only: Option<&str>) -> Result<Vec<String>> {
    let names = listed.lines().map(str::trim).filter(|name| !name.is_empty());
    let cases: Vec<_> =
        names.filter(|name| only.is_none_or(|only| name.contains(only))).map(str::to_owned).collect();
    ensure!(
        !cases.is_empty(),
        "benchmark `{BENCH}`: no case with `{}` in its name among: {}",
        only.unwrap_or_default(),
        listed.replace('\n', ", ")
    );
    Ok(cases)
}

/// Instructions of one run of the benchmark.
fn collect(project: &Project, bench: &Path, case: &str, calls: u64) -> Result<u64> {
    let folder = project.shell.create_temp_dir()?;
    let out = folder.path().join("callgrind.out");
    let valgrind = project.command("valgrind").args(["--quiet", "--tool=callgrind"]);
    let valgrind = valgrind.arg(format!("--callgrind-out-file={}", out.display()));
    valgrind.arg(bench).arg("count").arg(case).arg(calls.to_string()).ignore_stdout().quiet().run()?;
    let text = project.shell.read_file(&out)?;
    total(&text).with_context(|| format!("case `{case}`: no total in what callgrind wrote"))
}

/// The total of the first event, which is instructions, in what callgrind writes: `summary: 123 4`.
fn total(text: &str) -> Option<u64> {
    let numbers = text.lines().find_map(|line| line.strip_prefix("summary:"))?;
    numbers.split_whitespace().next()?.parse().ok()
}

fn per_call(once: u64, twice: u64, calls: u64) -> String {
    // Tenths in whole numbers: exact however long the run. A case that does nothing may differ by
    // a few instructions of start-up either way.
    let tenths = twice.saturating_sub(once).saturating_mul(10) / calls;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_from_the_file() {
        let file =
            "version: 1\nevents: Ir Dr\nfn=(1) main\n5 100 2\n\nsummary: 4021337 88\ntotals: 4021337 88\n";
        assert_eq!(total(file), Some(4_021_337));
        for wrong in ["", "summary:", "summary: many", "events: Ir\n"] {
            assert_eq!(total(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn start_up_cancels_out() {
        assert_eq!(per_call(1_000_000 + 500, 1_000_000 + 1000, 100), "5.0");
        assert_eq!(per_call(10, 13, 2), "1.5");
        assert_eq!(per_call(10, 9, 2), "0.0");
    }

    #[test]
    fn cases_are_one_per_line() {
        assert_eq!(cases("batch/hand\nbatch/toma\n\n", None).unwrap(), ["batch/hand", "batch/toma"]);
        assert_eq!(cases("batch/hand\nbatch/toma\n", Some("toma")).unwrap(), ["batch/toma"]);
        assert!(cases("a\n", Some("b")).unwrap_err().to_string().contains("`b`"));
        assert!(cases("\n", None).is_err());
    }
}
