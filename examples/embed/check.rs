//! `--check`: the vectors are right, and the same whatever memory there is.

use clap::ValueEnum as _;
use serde::Deserialize;
use tch::Device;

use crate::Result;
use crate::arguments::PolicyName;
use crate::embedder::{Embedder, VALUE, Work, difference, within};
use crate::job::Parts;
use crate::memory::Memory;
use crate::say::say;
use crate::search::dot;
use crate::summary::Summary;
use crate::tokens::Tokens;

/// Real lines for a check without an input.
const LINES: &str = include_str!("../../README.md");

/// Made by reference.py with the published implementation.
const REFERENCE: &str = include_str!("reference.json");

/// By how much a cosine may differ from the published implementation's.
const COSINE: f32 = 1e-4;

/// Bytes beside the model: from a few short texts at a time to many long ones.
const BESIDE: [u64; 3] = [4 << 20, 12 << 20, 64 << 20];

#[derive(Deserialize)]
struct Reference {
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    a: String,
    b: String,
    cosine: f32,
}

/// Both checks; `lines` stand in for our own where there is an input.
pub(crate) fn run(parts: &Parts, budget: Option<u64>, lines: Option<&[String]>) -> Result<()> {
    against_reference(parts)?;
    let own: Vec<String> = LINES.lines().map(str::to_owned).collect();
    let texts = parts.words.tokens(lines.unwrap_or(&own))?;
    against_fixed(parts, budget, &texts)
}

fn against_reference(parts: &Parts) -> Result<()> {
    let reference: Reference = serde_json::from_str(REFERENCE)?;
    let texts: Vec<&str> = reference.pairs.iter().flat_map(|pair| [&*pair.a, &*pair.b]).collect();
    let texts = parts.words.tokens(&texts)?;
    let memory = Memory::limit(parts.device, None)?;
    let embedder = Embedder::new(&parts.model, &memory, PolicyName::Halve.policy(), texts.len()).quiet();
    let rows = embedder.embed(&texts, &mut Summary::default())?;
    let width = parts.model.width();
    let cosines = rows.chunks_exact(2 * width).map(|pair| dot(&pair[..width], &pair[width..]));
    let right: Vec<f32> = reference.pairs.iter().map(|pair| pair.cosine).collect();
    let worst = difference(&cosines.collect::<Vec<_>>(), &right);
    let pairs = reference.pairs.len();
    say(format_args!(
        "check: cosines of {pairs} pairs differ from the published implementation's by at most {worst:.1e}"
    ))?;
    within("cosine", worst, COSINE)
}

fn against_fixed(parts: &Parts, budget: Option<u64>, texts: &[Tokens]) -> Result<()> {
    let wide = Memory::limit(parts.device, None)?;
    // In input order: other neighbors, so other paddings.
    let right = Work::in_input_order(&parts.model, texts).embed_fixed(16)?;
    let model_bytes = wide.model_bytes;
    drop(wide);
    let budgets: Vec<Option<u64>> = match (parts.device, budget) {
        (Device::Cpu, None) => BESIDE.map(|beside| Some(model_bytes + beside)).to_vec(),
        (_, budget) => vec![budget],
    };
    let mut failed = 0;
    for budget in &budgets {
        for policy in PolicyName::value_variants() {
            failed += against(parts, (*budget, *policy), texts, &right)?;
        }
    }
    if budgets.len() > 1 && failed < 2 {
        return Err(format!("check: memory ran out {failed} times, so nothing was shown").into());
    }
    Ok(())
}

/// Compares one run with the rows of fixed batches; returns how often memory ran out.
fn against(
    parts: &Parts,
    (budget, policy): (Option<u64>, PolicyName),
    texts: &[Tokens],
    right: &[f32],
) -> Result<usize> {
    let memory = Memory::limit(parts.device, budget)?;
    let embedder = Embedder::new(&parts.model, &memory, policy.policy(), texts.len()).quiet();
    let mut summary = Summary::default();
    let rows = embedder.embed(texts, &mut summary)?;
    let worst = difference(&rows, right);
    say(format_args!(
        "check: {memory}, {policy:?}: {} lines, {} out of memory, values differ from fixed batches' by at most {worst:.1e}",
        summary.lines, summary.out_of_memory
    ))?;
    within("value", worst, VALUE)?;
    Ok(summary.out_of_memory)
}
