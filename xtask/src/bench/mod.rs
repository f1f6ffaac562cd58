//! `cargo xtask bench`: measurements, in time or in instructions.

pub(crate) mod bundle;
mod callgrind;
pub(crate) mod peers;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::args::{Args, Names};
use crate::handover;
use crate::project::Project;
use crate::setup::torch::Build;
use crate::setup::{Provision, build_of};

/// Calls to count instructions over when `--calls` does not say otherwise.
const CALLS: u64 = 1000;

pub(crate) fn command(mut args: Args) -> Result<ExitCode> {
    let instructions = args.flag("--instructions");
    let calls = args.value("--calls")?;
    let build = build_of(&mut args)?;
    let Names { names, rest } = args.names()?;
    let name = at_most_one(&names)?;
    if instructions {
        callgrind::count(&Project::find()?, name, number_of_calls(calls.as_deref())?)?;
        Ok(ExitCode::SUCCESS)
    } else if calls.is_some() {
        bail!("option `--calls`: only with `--instructions`");
    } else {
        measure(&Project::find()?, build, name, &rest)
    }
}

fn measure(project: &Project, build: Option<Build>, name: Option<&str>, rest: &[String]) -> Result<ExitCode> {
    let benches: Vec<_> = match name {
        Some(name) => vec![project.workspace.target("bench", name)?],
        None => project.workspace.targets_of("bench").collect(),
    };
    let provision = Provision::new(project, build);
    if benches.is_empty() {
        eprintln!("no benchmarks");
    }
    handover::run(benches.into_iter().map(|(package, bench)| {
        let cargo = project.cargo("bench").args(["-p", &package.name, "--bench", &bench.name]);
        let cargo = cargo.args(bench.feature_args()).arg("--").args(rest);
        let with_libtorch = project.workspace.needs_libtorch(package);
        Ok(if with_libtorch { provision.libtorch()?.give(cargo) } else { cargo })
    }))
}

fn at_most_one(names: &[String]) -> Result<Option<&str>> {
    match names {
        [] => Ok(None),
        [name] => Ok(Some(name)),
        [_, second, ..] => bail!("unexpected argument `{second}`: one name at most"),
    }
}

fn number_of_calls(given: Option<&str>) -> Result<u64> {
    let Some(given) = given else { return Ok(CALLS) };
    let calls = given.parse().ok().filter(|calls| *calls > 0);
    calls.with_context(|| format!("option `--calls`: `{given}` is no number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_a_number_above_zero() {
        assert_eq!(number_of_calls(None).unwrap(), CALLS);
        assert_eq!(number_of_calls(Some("7")).unwrap(), 7);
        for wrong in ["0", "-1", "many", ""] {
            let error = number_of_calls(Some(wrong)).unwrap_err();
            assert_eq!(error.to_string(), format!("option `--calls`: `{wrong}` is no number above 0"));
        }
    }

    #[test]
    fn a_second_name_is_refused() {
        assert_eq!(at_most_one(&["a".into()]).unwrap(), Some("a"));
        assert!(at_most_one(&["a".into(), "b".into()]).unwrap_err().to_string().contains("`b`"));
    }
}
