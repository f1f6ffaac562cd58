//! Checks on a paper card: libtorch's CUDA half, without a GPU.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use xshell::Cmd;

use super::{Checks, counted};
use crate::bench::bundle;
use crate::metadata::Suite;
use crate::project::Project;
use crate::setup::torch::Environment;
use crate::setup::torch::card::{self, Built};

/// Tests that take half of the time of their suites.
const AT_NIGHT: [&str; 6] = [
    "exact::a_",
    "noticed::",
    "random_plans::",
    "random_programs",
    "retry::a_batch_keeps_its_size",
    "programs::epochs",
];

/// Suites that compare values.
const OF_VALUES: [&str; 3] = ["checkpoint", "offload", "torch"];

/// Runs all of `tests/gpu`, of which at most a tenth may need a GPU, and the suites.
pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let on = OnCard::new(checks)?;
    let (gpu, candle) = (on.card.checks(on.program("--test", "gpu")?), on.candle()?);
    let nvcc =
        if candle.is_some() { "" } else { "; SKIPPED candle: no nvcc, with which it is built for CUDA" };
    // The longest comes first.
    let all = [gpu].into_iter().chain(on.suites(&AT_NIGHT)?).chain(candle);
    let printed = checks.run_in_pairs(all)?;
    let table = printed.iter().find(|text| text.starts_with("check ")).context("no table of `gpu`")?;
    let (ran, cannot) = (rows(table, "ok").len(), rows(table, "skipped: "));
    let (count, all) = (cannot.len(), ran + cannot.len());
    ensure!(10 * count <= all, "{count} of {all} cannot run:\n{}", cannot.join("\n"));
    let last = table.lines().last().context("the checks printed nothing")?;
    Ok(format!("tested on a paper card: {last}; a GPU is needed by {}{nvcc}", counted(count, "check")))
}

/// Compares predictions of large nets with the bytes that the allocator counts, at both compute capabilities and under
/// autocast, and runs 2,000 random steps next to fragments; none computes values. Then runs all of `step` with all
/// values, and a failure of each allocation from the driver.
pub(super) fn nightly(checks: &Checks<'_>) -> Result<String> {
    let on = OnCard::new(checks)?;
    on.control()?;
    let large = |kind, name, words: &[&str]| {
        let program = on.card.give(on.program(kind, name)?).args(words);
        anyhow::Ok(program.env("PAPER_CARD_BYTES", "64G").env("PAPER_VALUES", "0"))
    };
    let nets = |step: &[&str]| large("--bench", "nets", &[&["--cuda", "--within", "60GiB"], step].concat());
    let steps = large("--test", "gpu", &["fragments"])?.env("TOMA_STEPS", "2000");
    let values = large("--test", "gpu", &[])?.env("PAPER_CARD_POISON", "0x41").env("PAPER_VALUES", "1");
    let failing = on.on_card("--test", "checkpoint")?.args(["--quiet", "failures::"]);
    let failing = failing.env("PAPER_CARD_BYTES", "16G").env("PYTORCH_NO_CUDA_MEMORY_CACHING", "1");
    let hopper = nets(&[])?.env("PAPER_CARD_CC", "90");
    let large = [nets(&[])?, hopper, nets(&["--step", "autocast"])?, steps];
    let mut all = on.suites(&[])?;
    all.extend(large.into_iter().chain([values.env("TOMA_VALUES", "all"), failing]));
    checks.pass_in_pairs(all)
}

struct OnCard<'a> {
    project: &'a Project,
    libtorch: &'a Environment,
    card: Built,
}

impl<'a> OnCard<'a> {
    fn new(checks: &'a Checks<'_>) -> Result<Self> {
        let (project, libtorch) = (checks.project, checks.provision.libtorch()?);
        Ok(Self { project, libtorch, card: card::built(project, libtorch)? })
    }

    fn program(&self, kind: &str, name: &str) -> Result<Cmd<'a>> {
        let cargo = self.project.cargo("test").args(["--no-run", "-p", "toma-torch", kind, name]);
        Ok(self.project.command(bundle::built(self.libtorch.give(cargo), name)?))
    }

    /// The tests of `toma-candle`, if candle can be built for CUDA.
    fn candle(&self) -> Result<Option<Cmd<'a>>> {
        if self.project.command("nvcc").arg("--version").quiet().ignore_stdout().run().is_err() {
            return Ok(None);
        }
        let test = ["--no-run", "-p", "toma-candle", "--features", "candle-core/cuda", "--test", "candle"];
        let program = bundle::built(self.project.cargo("test").args(test), "candle")?;
        Ok(Some(self.card.give(self.project.command(program))))
    }

    /// A process for each suite.
    fn suites(&self, left_out: &[&str]) -> Result<Vec<Cmd<'a>>> {
        self.project.workspace.on_card().map(|(name, suite)| self.suite(name, suite, left_out)).collect()
    }

    /// Checks that the suites that compare values fail without values.
    fn control(&self) -> Result<()> {
        for (name, suite) in self.project.workspace.on_card().filter(|(name, _)| OF_VALUES.contains(name)) {
            // Tests that fail leave their files.
            let folder = self.project.shell.create_temp_dir()?;
            let program = self.suite(name, suite, &AT_NIGHT)?.env("PAPER_VALUES", "0");
            let program = program.env("TMPDIR", folder.path());
            let printed = String::from_utf8_lossy(&Command::from(program).output()?.stdout).into_owned();
            let has_failed = printed.contains("test result: FAILED");
            ensure!(has_failed, "no test of `{name}` fails on a paper card that computes no values");
        }
        Ok(())
    }

    fn suite(&self, name: &str, suite: &Suite, left_out: &[&str]) -> Result<Cmd<'a>> {
        let program = self.on_card("--test", name)?.env("PAPER_CARD_BYTES", &suite.bytes);
        Ok(program.arg("--quiet").args(suite.arguments(left_out)))
    }

    /// A program on a card whose memory is not zero before a kernel writes it.
    fn on_card(&self, kind: &str, name: &str) -> Result<Cmd<'a>> {
        let program = self.card.give(self.program(kind, name)?);
        Ok(program.env("PAPER_CARD_POISON", "0x41").env("TOMA_TEST_DEVICE", "cuda"))
    }
}

/// Rows of the table with the given result, without their figures.
fn rows<'a>(table: &'a str, result: &str) -> Vec<&'a str> {
    let of = |line: &&str| line.split(" | ").nth(1).is_some_and(|text| text.starts_with(result));
    table.lines().filter(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_results() {
        let table = "check | result | figure\na | ok   | 1\nb ok | FAILED | ok\nc | skipped: no GPU |\n1 ok, 1 failed";
        assert_eq!(rows(table, "ok"), ["a | ok   | 1"]);
        assert_eq!(rows(table, "FAILED"), ["b ok | FAILED | ok"]);
        assert_eq!(rows(table, "skipped: "), ["c | skipped: no GPU |"]);
    }
}
