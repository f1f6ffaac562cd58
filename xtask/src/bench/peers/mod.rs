//! `cargo xtask bench-peers`: the same workloads through libraries for Python and through toma, in one
//! session and in alternation, and what is written about them.

mod figures;
mod machine;
mod plot;
mod python;
mod session;
mod text;

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use xshell::Cmd;

use crate::bench::bundle;
use crate::project::Project;
use crate::setup::torch::{self, Build, Environment};
use figures::{Row, World, rows};
use python::Python;
use session::{Peer, Worker};

/// What is worked off, for both languages.
const WORLDS: &str = include_str!("../../../../benches/peers/worlds.json");

/// What stands around the part of a document that this command writes.
const BEGIN: &str = "<!-- peers: cargo xtask bench-peers -->";
const END: &str = "<!-- end of peers -->";

const PLOT: &str = "benches/peers.svg";

#[derive(Args, Debug)]
pub(crate) struct BenchPeers {
    /// How often each is measured
    #[arg(long, value_name = "N", default_value = "4")]
    rounds: NonZeroUsize,
}

impl BenchPeers {
    pub(crate) fn run(&self, build: Option<Build>) -> Result<ExitCode> {
        let (project, rounds) = (Project::find()?, self.rounds.get());
        let environment = torch::environment(&project, build)?;
        let commands = commands(&project, &environment)?;
        let machine = machine::describe(&project);
        let workers = commands.into_iter().map(Worker::start).collect::<Result<Vec<_>>>()?;
        let peers = session::rounds(workers, rounds)?;
        let worlds: Vec<World> = serde_json::from_str(WORLDS)?;
        let rows = rows(&peers, &worlds)?;
        let machine = format!("{machine}{} Medians of {rounds} rounds.", about(&peers));
        write(&project, &rows, &worlds, &machine)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What is measured, each a process of its own, and everything it needs.
fn commands<'a>(project: &'a Project, environment: &Environment) -> Result<Vec<Cmd<'a>>> {
    let python = Python::provide(project, environment)?;
    let bench = project.cargo("bench").args(["-p", "toma-torch", "--bench", "peers", "--no-run"]);
    let program = bundle::built(environment.give(bench), "peers")?;
    let rust = |role: &str| environment.give(project.command(&program).arg(role));
    Ok(vec![
        python.peer(project, "loop"),
        rust("loop"),
        python.peer(project, "toma"),
        rust("toma"),
        python.peer(project, "accelerate"),
        rust("counted"),
    ])
}

/// What the peers run on, where they say so, each once.
fn about(peers: &[Peer]) -> String {
    let mut seen = HashSet::from([""]);
    let about = peers.iter().map(|peer| &*peer.about).filter(|about| seen.insert(about));
    about.flat_map(|about| [" ", about, "."]).collect()
}

fn write(project: &Project, rows: &[Row], worlds: &[World], machine: &str) -> Result<()> {
    let shell = &project.shell;
    let chosen: Vec<_> = rows.iter().filter(|row| row.is_chosen()).collect();
    shell.write_file(PLOT, plot::svg(&chosen, worlds))?;
    let summary: Vec<_> = rows.iter().filter(|row| row.is_summary()).collect();
    let short = text::short(&summary, worlds, machine);
    for (path, text) in [("README.md", short), ("benches/RESULTS.md", text::whole(rows, worlds, machine))] {
        let new = with_part(&shell.read_file(path)?, &text).with_context(|| path.to_owned())?;
        shell.write_file(path, new)?;
    }
    print!("{}", text::main_table(rows.iter()));
    println!("written: README.md, benches/RESULTS.md, {PLOT}");
    Ok(())
}

/// The document with `part` between its marks, and nothing else changed.
fn with_part(document: &str, part: &str) -> Result<String> {
    let (before, rest) = document.split_once(BEGIN).with_context(|| format!("no line `{BEGIN}`"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no line `{END}` after `{BEGIN}`"))?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", part.trim()))
}

#[cfg(test)]
mod tests;
