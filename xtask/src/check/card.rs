//! What is checked on a paper card: libtorch's CUDA half, without a GPU.

use anyhow::{Context as _, Result, ensure};

use xshell::Cmd;

use super::{Checks, counted};
use crate::bench::bundle;
use crate::project::Project;
use crate::setup::torch::Environment;
use crate::setup::torch::card::{self, Built};

/// Suites of the CPU that run on a card, too: their names, filters, and what is left to the CPU: bytes as its allocator counts
/// them, budgets below a workspace of cuBLAS, scripts that compile kernels, and texts that name the CPU.
const SUITES: [(&str, &str, &str); 2] = [
    (
        "checkpoint",
        "",
        "bytes:: failures:: retry::an_excess retry::what_fails script:: statistics::operators",
    ),
    (
        "offload",
        "files:: foreseen:: handles:: modes:: park:: programs:: variables::",
        "a_device_is_parked_without a_step_that_is_parked_in a_tensor_leaves_with_its_views an_allocation_that_fails \
         bad_input foreign_memory half_the_variables rare_kinds scripts used_in_destructors variables_are_saved_from what_lacks_memory",
    ),
];

/// These take half of the time of their suites.
const AT_NIGHT: &str = "random_plans:: retry::a_batch_keeps_its_size programs::epochs";

/// The whole of `tests/gpu`, of which at most a tenth may need a GPU, and the suites.
pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let (project, libtorch) = (checks.project, checks.provision.libtorch()?);
    let card = card::built(project, libtorch)?;
    let cargo = project.cargo("test").args(["--no-run", "-p", "toma-torch", "--test", "gpu"]);
    let program = project.command(bundle::built(libtorch.give(cargo), "gpu")?);
    let (passes, table) = card.checks(program)?;
    print!("{table}");
    ensure!(passes, "{}", rows(&table, "FAILED").join("\n"));
    let (ran, cannot) = (rows(&table, "ok").len(), rows(&table, "skipped: "));
    ensure!(
        10 * cannot.len() <= ran + cannot.len(),
        "{} of {} cannot run:\n{}",
        cannot.len(),
        ran + cannot.len(),
        cannot.join("\n")
    );
    let last = table.lines().last().context("the checks said nothing")?;
    checks.run_in_pairs(suites(project, libtorch, &card, AT_NIGHT)?)?;
    Ok(format!("tested on a paper card: {last}; a GPU is needed by {}", counted(cannot.len(), "check")))
}

/// One process each.
fn suites<'a>(
    project: &'a Project,
    libtorch: &Environment,
    card: &Built,
    left_out: &str,
) -> Result<Vec<Cmd<'a>>> {
    let suites = SUITES.iter().map(|(name, filters, cpu)| {
        let skipped = [*cpu, left_out].join(" ");
        let skipped = skipped.split_whitespace().flat_map(|name| ["--skip", name]);
        let suite = suite(project, libtorch, card, name)?;
        Ok(suite.args(filters.split_whitespace()).args(skipped).env("PAPER_CARD_POISON", "0x41"))
    });
    suites.collect()
}

fn suite<'a>(project: &'a Project, libtorch: &Environment, card: &Built, name: &str) -> Result<Cmd<'a>> {
    let cargo = project.cargo("test").args(["--no-run", "-p", "toma-torch", "--test", name]);
    let program = card.give(project.command(bundle::built(libtorch.give(cargo), name)?)).args(["--quiet"]);
    Ok(program.env("TOMA_TEST_DEVICE", "cuda").env("PAPER_CARD_BYTES", "16G"))
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
        anyhow::Ok(nets.env("PAPER_CARD_CC", capability))
    };
    let steps = program("--test", "gpu")?.arg("fragments").env("TOMA_STEPS", "2000");
    let values = program("--test", "gpu")?.env("PAPER_CARD_POISON", "0x41").env("PAPER_VALUES", "1");
    // Each allocation is the driver's, and fails once.
    let failing = suite(project, libtorch, &card, "checkpoint")?.arg("failures::");
    let mut all = suites(project, libtorch, &card, "")?;
    all.extend([nets("80")?, nets("90")?, steps, values.env("TOMA_VALUES", "all")]);
    all.push(failing.env("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"));
    checks.pass(all)
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
