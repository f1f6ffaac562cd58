//! `--check`: the vectors are right, and the same with any amount of memory.

use bytesize::ByteSize;
use clap::ValueEnum as _;
use serde::Deserialize;
use tch::Device;

use crate::arguments::PolicyName;
use crate::embedder::{Embedder, VALUE, compare};
use crate::job::Parts;
use crate::memory::Memory;
use crate::search::dot;
use crate::texts::{LINES, Tokens};
use crate::{Result, print};

/// Output of reference.py, which uses the published implementation.
const REFERENCE: &str = include_str!("reference.json");

/// Tolerance of a cosine against the published implementation.
const COSINE: f32 = 1e-4;

/// Bytes in addition to the model: from a few short texts at a time to many long ones.
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

/// Runs both checks; `lines` replace the built-in lines if there is an input.
pub(crate) fn run(parts: &Parts, budget: Option<ByteSize>, lines: Option<&[String]>) -> Result<()> {
    against_reference(parts)?;
    let own: Vec<String> = LINES.lines().map(str::to_owned).collect();
    let texts = parts.words.tokens(lines.unwrap_or(&own))?;
    against_fixed(parts, budget, &texts)
}

fn against_reference(parts: &Parts) -> Result<()> {
    let Reference { pairs } = serde_json::from_str(REFERENCE)?;
    let texts: Vec<&str> = pairs.iter().flat_map(|pair| [&*pair.a, &*pair.b]).collect();
    let texts = parts.words.tokens(&texts)?;
    let memory = Memory::limit(parts.device, None)?;
    let rows = adapt(parts, &memory, PolicyName::Halve).embed(&texts)?;
    let rows: Vec<_> = rows.chunks_exact(parts.model.width()).collect();
    let cosines = rows.chunks_exact(2).map(|pair| dot(pair[0], pair[1]));
    let right: Vec<f32> = pairs.iter().map(|pair| pair.cosine).collect();
    let worst = compare("cosine", &cosines.collect::<Vec<_>>(), &right, COSINE)?;
    let pairs = pairs.len();
    print(format_args!(
        "check: cosines of {pairs} pairs differ from the published implementation's by at most {worst:.1e}"
    ))
}

fn against_fixed(parts: &Parts, budget: Option<ByteSize>, texts: &[Tokens]) -> Result<()> {
    let model_bytes = Memory::limit(parts.device, None)?.model_bytes;
    let right = fixed(parts, texts, 16)?;
    let budgets: Vec<Option<ByteSize>> = match (parts.device, budget) {
        (Device::Cpu, None) => BESIDE.map(|beside| Some(ByteSize(model_bytes + beside))).to_vec(),
        (_, budget) => vec![budget],
    };
    let (mut failed, mut cut) = (0, 0);
    for budget in &budgets {
        let memory = Memory::limit(parts.device, *budget)?;
        for &policy in PolicyName::value_variants() {
            let mut embedder = adapt(parts, &memory, policy);
            let worst = compare("value", &embedder.embed(texts)?, &right, VALUE)?;
            let (lines, out_of_memory) = (embedder.summary.lines(), embedder.summary.out_of_memory());
            print(format_args!(
                "check: {memory}, {policy:?}: {lines} lines, {out_of_memory} out of memory, values differ from \
                 fixed batches' by at most {worst:.1e}"
            ))?;
            // Both policies try sizes beyond the predicted one, to measure the gain.
            let tries_more = matches!(policy, PolicyName::Adaptive | PolicyName::Throughput);
            failed += if tries_more { 0 } else { out_of_memory };
            cut += embedder.summary.reports().filter(|r| r.attempts > r.out_of_memory + 1).count();
        }
    }
    if failed > 0 || budgets.len() > 1 && cut < 2 {
        return Err(format!("check: memory ran out {failed} times, and {cut} buckets were cut").into());
    }
    Ok(())
}

fn adapt<'a>(parts: &'a Parts, memory: &'a Memory, policy: PolicyName) -> Embedder<'a> {
    Embedder::new(&parts.model, memory, policy.policy(), usize::MAX).quiet()
}

/// The rows of batches of one size, in input order: other neighbors, so other paddings.
pub(crate) fn fixed(parts: &Parts, texts: &[Tokens], batch: usize) -> Result<Vec<f32>> {
    let mut rows = Vec::new();
    for texts in texts.chunks(batch) {
        rows.extend(parts.model.embed(&texts.iter().collect::<Vec<_>>())?);
    }
    Ok(rows)
}
