//! Processes that measure what they are asked for, one at a time.
//!
//! # Why
//!
//! Each question goes to a process of its own, one at a time. What one library leaves in memory makes the
//! garbage collections of another slower. A machine that grows busier slows all of them alike.
//!
//! Memory is limited by a count of rows, which means the same in both languages. The error is libtorch's
//! own in both.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use xshell::Cmd;

/// A library, or a loop by hand, and what it can measure.
#[derive(Debug, Deserialize)]
pub(super) struct Peer {
    pub(super) language: String,
    #[serde(rename = "peer")]
    pub(super) name: String,
    /// Empty where there is none.
    pub(super) version: String,
    /// On what it runs, where it says so.
    #[serde(default)]
    pub(super) about: String,
    pub(super) cases: Vec<Case>,
}

/// One thing that is measured.
#[derive(Debug, Deserialize)]
pub(super) struct Case {
    #[serde(flatten)]
    pub(super) variant: Variant,
    /// The name of a world, or `overhead`.
    pub(super) group: String,
    /// What came of it.
    #[serde(skip)]
    pub(super) samples: Samples,
}

/// A way to run a loop.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Variant {
    pub(super) form: String,
    pub(super) cache: String,
    pub(super) policy: String,
}

/// Figures of each round, by name.
pub(super) type Samples = BTreeMap<String, Vec<f64>>;

/// A process that waits to be asked. It ends when its questions do.
#[derive(Debug)]
pub(super) struct Worker {
    name: String,
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    pub(super) fn start(command: Cmd<'_>) -> Result<(Self, Peer)> {
        let name = command.to_string();
        let mut command = Command::from(command);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot run `{name}`"))?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("no output")?);
        let mut worker = Self { name, child, questions, answers };
        let peer = Peer::parse(&worker.line()?).with_context(|| format!("`{}`", worker.name))?;
        Ok((worker, peer))
    }

    fn ask(&mut self, case: usize) -> Result<BTreeMap<String, f64>> {
        let questions = self.questions.as_mut().context("no way to ask")?;
        // A process that has ended is told by the answer that does not come.
        let _ = writeln!(questions, "{case}");
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("`{}`: case {case}: `{line}`", self.name))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(
            self.answers.read_line(&mut line)? > 0,
            "`{}`: ended without an answer, see above",
            self.name
        );
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.questions.take());
        // How it ends says nothing that its answers do not.
        let _ = self.child.wait();
    }
}

impl Peer {
    fn parse(line: &str) -> Result<Self> {
        let peer: Self = serde_json::from_str(line).with_context(|| format!("no greeting: `{line}`"))?;
        for (at, Case { variant, group, .. }) in peer.cases.iter().enumerate() {
            let is_same = |other: &Case| other.variant == *variant && other.group == *group;
            ensure!(!peer.cases[..at].iter().any(is_same), "two cases of one name: {group}, {variant:?}");
        }
        Ok(peer)
    }
}

/// Every case of every worker, so often: one of each in turn, and every other round the other way
/// round, so that a machine that grows slower or faster does it to all alike.
pub(super) fn rounds(workers: Vec<(Worker, Peer)>, rounds: usize) -> Result<Vec<Peer>> {
    let (mut workers, mut peers): (Vec<_>, Vec<_>) = workers.into_iter().unzip();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for (case, worker) in order(&peers, round) {
            for (name, figure) in workers[worker].ask(case)? {
                peers[worker].cases[case].samples.entry(name).or_default().push(figure);
            }
        }
    }
    Ok(peers)
}

/// Numbers of cases and of the workers that have them.
fn order(peers: &[Peer], round: usize) -> Vec<(usize, usize)> {
    let of_worker = |(worker, peer): (usize, &Peer)| (0..peer.cases.len()).map(move |case| (case, worker));
    let mut all: Vec<_> = peers.iter().enumerate().flat_map(of_worker).collect();
    all.sort_by(|a, b| if round.is_multiple_of(2) { a.cmp(b) } else { b.cmp(a) });
    all
}
