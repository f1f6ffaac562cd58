//! The package that needs libtorch, which no other step touches.

use anyhow::Result;

use super::lints;
use crate::test::Checks;
use crate::torch;

const PACKAGE: &str = "toma-torch";

pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    lints::needs(checks.project, "clippy", "clippy")?;
    let environment = torch::for_checks(checks.project)?;
    let cargo = |subcommand| checks.project.cargo(subcommand).args(["-p", PACKAGE]);
    let clippy =
        cargo("clippy").args(["--all-targets", "--", "-D", "warnings", "-D", "clippy::incompatible_msrv"]);
    let doc = lints::strict_doc(cargo("doc").arg("--document-private-items"));
    let test = cargo("test").args(["--no-fail-fast", "--", "--quiet"]);
    checks.run_all([clippy, doc, test].map(|cargo| environment.give(cargo)))?;
    Ok(String::new())
}
