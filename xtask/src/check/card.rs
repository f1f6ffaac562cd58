//! What is checked on a paper card: libtorch's CUDA half, without a GPU.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::{Checks, counted};
use crate::bench::bundle;
use crate::setup::torch::card;

/// Its fiftieth is what the checks of `tests/gpu` let libtorch have: 1.3 GiB. What no kernel wrote is not zero.
const SETTINGS: [(&str, &str); 2] = [("PAPER_CARD_BYTES", "64G"), ("PAPER_CARD_POISON", "0x41")];

/// The whole of `tests/gpu`, of which at most a tenth may need a GPU.
pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let (project, libtorch) = (checks.project, checks.provision.libtorch()?);
    let card = card::built(project, libtorch)?;
    let cargo = project.cargo("test").args(["--no-run", "-p", "toma-torch", "--test", "gpu"]);
    let program = project.command(bundle::built(libtorch.give(cargo), "gpu")?);
    let output = Command::from(card.give(program).envs(SETTINGS)).stderr(Stdio::inherit()).output()?;
    let table = String::from_utf8_lossy(&output.stdout);
    print!("{table}");
    ensure!(output.status.success(), "{}", rows(&table, "FAILED").join("\n"));
    let (ran, cannot) = (rows(&table, "ok").len(), rows(&table, "skipped: "));
    ensure!(
        10 * cannot.len() <= ran + cannot.len(),
        "{} of {} cannot run:\n{}",
        cannot.len(),
        ran + cannot.len(),
        cannot.join("\n")
    );
    let last = table.lines().last().context("the checks said nothing")?;
    Ok(format!("tested on a paper card: {last}; a GPU is needed by {}", counted(cannot.len(), "check")))
}

/// Predictions of large nets against what the allocator counts, at both capabilities, and 2,000 random steps beside fragments.
/// Nothing is computed.
pub(super) fn nightly(checks: &Checks<'_>) -> Result<String> {
    let (project, libtorch) = (checks.project, checks.provision.libtorch()?);
    let card = card::built(project, libtorch)?;
    let program = |kind: &str, name: &str| {
        let cargo = project.cargo("test").args(["--no-run", "-p", "toma-torch", kind, name]);
        let program = project.command(bundle::built(libtorch.give(cargo), name)?);
        anyhow::Ok(card.give(program).env("PAPER_CARD_BYTES", "64G").env("PAPER_VALUES", "0"))
    };
    let nets = |capability: &str| {
        let nets = program("--bench", "nets")?.args(["--cuda", "--within", "60GiB"]);
        Ok(nets.env("PAPER_CARD_CC", capability))
    };
    let steps = program("--test", "gpu")?.arg("fragments").env("TOMA_STEPS", "2000");
    checks.pass([nets("80"), nets("90"), Ok(steps)].into_iter().collect::<Result<Vec<_>>>()?)
}

/// Rows of the table with a result, without their figures.
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
