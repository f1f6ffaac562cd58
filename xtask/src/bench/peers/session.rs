//! Processes that measure what they are asked for, one at a time.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use xshell::Cmd;

/// Who answers, and what it can measure.
#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    pub(super) language: String,
    pub(super) peer: String,
    /// Empty where there is none.
    pub(super) version: String,
    /// On what it runs, where it says so.
    #[serde(default)]
    pub(super) about: String,
    pub(super) cases: Vec<Case>,
}

/// What tells a case from all others of its peer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Case {
    #[serde(flatten)]
    pub(super) variant: Variant,
    /// The name of a world, or `overhead`.
    pub(super) group: String,
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

/// What a peer came to, case by case.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) hello: Hello,
    pub(super) samples: Vec<Samples>,
}

/// A process that waits to be asked. It ends when nobody can ask it any more.
#[derive(Debug)]
pub(super) struct Worker {
    name: String,
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    pub(super) fn start(command: Cmd<'_>) -> Result<(Self, Hello)> {
        let name = command.to_string();
        let mut command = Command::from(command);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot run `{name}`"))?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("no output")?);
        let mut worker = Self { name, child, questions, answers };
        let hello = Hello::parse(&worker.line()?).with_context(|| format!("`{}`", worker.name))?;
        Ok((worker, hello))
    }

    fn ask(&mut self, case: usize) -> Result<BTreeMap<String, f64>> {
        let questions = self.questions.as_mut().context("nobody to ask")?;
        // A process that has ended is told by the answer that does not come.
        let _ = writeln!(questions, "{case}");
        let line = self.line()?;
        let answer: BTreeMap<String, f64> =
            serde_json::from_str(&line).with_context(|| format!("`{}`: case {case}: `{line}`", self.name))?;
        Ok(answer)
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

impl Hello {
    fn parse(line: &str) -> Result<Self> {
        let hello: Self = serde_json::from_str(line).with_context(|| format!("no greeting: `{line}`"))?;
        for (at, case) in hello.cases.iter().enumerate() {
            if hello.cases[..at].contains(case) {
                bail!("two cases of one name: {case:?}");
            }
        }
        Ok(hello)
    }
}

/// Every case of every worker, so often: one of each in turn, and every other round the other way
/// round, so that a machine that grows slower or faster does it to all alike.
pub(super) fn rounds(workers: Vec<(Worker, Hello)>, rounds: usize) -> Result<Vec<Answers>> {
    let (mut workers, hellos): (Vec<_>, Vec<_>) = workers.into_iter().unzip();
    let empty = |hello: Hello| Answers { samples: vec![Samples::new(); hello.cases.len()], hello };
    let mut answers: Vec<_> = hellos.into_iter().map(empty).collect();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for (worker, case) in order(&answers, round) {
            for (name, figure) in workers[worker].ask(case)? {
                answers[worker].samples[case].entry(name).or_default().push(figure);
            }
        }
    }
    Ok(answers)
}

fn order(answers: &[Answers], round: usize) -> Vec<(usize, usize)> {
    let most = answers.iter().map(|answers| answers.samples.len()).max().unwrap_or(0);
    let all = (0..most).flat_map(|case| (0..answers.len()).map(move |worker| (worker, case)));
    let mut all: Vec<_> = all.filter(|(worker, case)| *case < answers[*worker].samples.len()).collect();
    if round % 2 == 1 {
        all.reverse();
    }
    all
}
