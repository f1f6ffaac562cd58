//! What all answers come to.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::session::{Peer, Samples, Variant};

/// How much there is to do in a whole run, and what fits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct World {
    pub(super) name: String,
    pub(super) rows: u64,
    pub(super) initial: u64,
    pub(super) limit: u64,
    /// Whether half of it is lost when half of the rows are done.
    pub(super) halves: bool,
}

/// One way to run a loop, with its figures.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) language: String,
    /// With its version.
    pub(super) peer: String,
    pub(super) variant: Variant,
    /// Microseconds beyond the hand-written loop; of that loop itself, in all.
    pub(super) call_us: Option<f64>,
    pub(super) chunk_us: Option<f64>,
    /// One per world; none where no whole runs were measured.
    pub(super) runs: Vec<Run>,
}

/// Medians of a cold run and of a warm one after it: milliseconds, failures, the size kept in the end in percent
/// of the limit, and time over that of the best fixed size in the same language.
pub(super) type Run = BTreeMap<String, f64>;

const MEASURED: [&str; 6] =
    ["cold_ms", "cold_ooms", "cold_kept_percent", "warm_ms", "warm_ooms", "warm_kept_percent"];

const OVERHEAD: &str = "overhead";
const LOOP: &str = "loop";

impl Row {
    pub(super) fn is_loop(&self) -> bool {
        self.peer == LOOP
    }

    pub(super) fn is_ours(&self) -> bool {
        self.language == "Rust" && !self.is_loop()
    }

    /// The figure of every world.
    pub(super) fn each(&self, figure: &str) -> Vec<f64> {
        self.runs.iter().map(|run| run[figure]).collect()
    }

    /// Those that are shown first: ranges with a cache, and those that have neither.
    pub(super) fn is_chosen(&self) -> bool {
        let Variant { form, cache, .. } = &self.variant;
        let is_passed_over =
            ["batch", "chunked"].contains(&&**form) || ["NoCache", "NoBatchsizeCache"].contains(&&**cache);
        self.is_loop() || !is_passed_over
    }

    /// Those that the README shows: each library as it is used without options, and what is recommended of ours.
    pub(super) fn is_summary(&self) -> bool {
        let Variant { cache, policy, .. } = &self.variant;
        let is_typical = match &**cache {
            "" | "StacktraceMemoryBatchsizeCache" => true,
            "StacktraceMemoryCache" => policy == "Halve",
            "GlobalCache" => policy == "Adaptive",
            _ => false,
        };
        self.is_chosen() && !self.is_loop() && is_typical
    }
}

/// A row per way to run a loop, in the order in which they were told; of hand-written loops one per
/// language.
pub(super) fn rows(peers: &[Peer], worlds: &[World]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for peer in peers {
        let base = Base::of(peers, &peer.language, worlds)?;
        if peer.name == LOOP {
            rows.push(base.row()?);
            continue;
        }
        let mut variants: Vec<_> = peer.cases.iter().map(|case| &case.variant).collect();
        variants.dedup();
        for variant in variants {
            rows.push(base.compared(peer, variant, worlds)?);
        }
    }
    rows.sort_by(|a, b| a.language.cmp(&b.language));
    Ok(rows)
}

/// The hand-written loops of a language, with which all else is compared.
struct Base<'a> {
    peer: &'a Peer,
    /// In each world, the loop whose size is the fastest, with its milliseconds.
    best: Vec<(&'a Samples, Vec<f64>)>,
}

impl<'a> Base<'a> {
    fn of(peers: &'a [Peer], language: &str, worlds: &[World]) -> Result<Self> {
        let base = peers.iter().find(|peer| peer.name == LOOP && peer.language == language);
        let peer = base.with_context(|| format!("no loop in {language}"))?;
        let best = worlds.iter().map(|world| fastest(peer, world)).collect::<Result<_>>()?;
        Ok(Self { peer, best })
    }

    /// The costs of the loop over ranges, and in each world the best size.
    fn row(&self) -> Result<Row> {
        let overhead = find(self.peer, &by_hand("range"), OVERHEAD);
        let overhead = |name: &str| overhead?.get(name).map(|all| median(all));
        // A size that fits fails in no run, and both runs are the same work.
        let best = |(samples, ms): &(&Samples, Vec<f64>)| {
            let mut samples = (*samples).clone();
            samples.extend(["cold_ms", "warm_ms"].map(|name| (name.to_owned(), ms.clone())));
            run(&samples, ms)
        };
        let runs = self.best.iter().map(best).collect::<Result<_>>()?;
        let variant = Variant { policy: "best fixed size".to_owned(), ..by_hand("range") };
        Ok(row(self.peer, variant, [overhead("call_us"), overhead("chunk_us")], runs))
    }

    fn compared(&self, peer: &Peer, variant: &Variant, worlds: &[World]) -> Result<Row> {
        let overheads = [self.beyond(peer, variant, "call_us")?, self.beyond(peer, variant, "chunk_us")?];
        let samples = worlds.iter().map(|world| find(peer, variant, &world.name));
        let runs = samples.zip(&self.best).filter_map(|(samples, (_, base_ms))| Some(run(samples?, base_ms)));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        ensure!(runs.is_empty() || runs.len() == worlds.len(), "{variant:?}: not in every world");
        Ok(row(peer, variant.clone(), overheads, runs))
    }

    /// What it takes beyond the loop of the same form, round by round.
    fn beyond(&self, peer: &Peer, variant: &Variant, name: &str) -> Result<Option<f64>> {
        let overhead = |peer, variant| find(peer, variant, OVERHEAD).and_then(|samples| samples.get(name));
        let Some(ours) = overhead(peer, variant) else { return Ok(None) };
        // A form of another name is a function with a size.
        let form = Some(&*variant.form).filter(|form| ["range", "chunked"].contains(form));
        let base = overhead(self.peer, &by_hand(form.unwrap_or("batch")));
        let base = base.with_context(|| format!("no loop to compare {variant:?} with"))?;
        Ok(Some(median(&pairs(ours, base, |ours, base| ours - base))))
    }
}

/// The name of a loop without a library, where its size does not matter.
fn by_hand(form: &str) -> Variant {
    Variant { form: form.to_owned(), cache: String::new(), policy: String::new() }
}

fn row(peer: &Peer, variant: Variant, [call_us, chunk_us]: [Option<f64>; 2], runs: Vec<Run>) -> Row {
    let name = format!("{} {}", peer.name, peer.version).trim_end().to_owned();
    Row { language: peer.language.clone(), peer: name, variant, call_us, chunk_us, runs }
}

fn find<'a>(peer: &'a Peer, variant: &Variant, group: &str) -> Option<&'a Samples> {
    let mut cases = peer.cases.iter();
    cases.find(|case| case.variant == *variant && case.group == group).map(|case| &case.samples)
}

/// The loop that takes the least time in a world. Its cold and its warm run are the same work: both tell its time.
fn fastest<'a>(peer: &'a Peer, world: &World) -> Result<(&'a Samples, Vec<f64>)> {
    let cases = peer.cases.iter().filter(|case| case.group == world.name);
    let timed = cases.map(|case| {
        let (cold, warm) = (figure(&case.samples, "cold_ms")?, figure(&case.samples, "warm_ms")?);
        Ok((&case.samples, pairs(cold, warm, f64::midpoint)))
    });
    let timed = timed.collect::<Result<Vec<_>>>()?;
    let fastest = timed.into_iter().min_by(|(_, a), (_, b)| median(a).total_cmp(&median(b)));
    fastest.with_context(|| format!("world `{}`: no loop", world.name))
}

fn run(samples: &Samples, base_ms: &[f64]) -> Result<Run> {
    let measured = MEASURED.map(|name| Ok((name.to_owned(), median(figure(samples, name)?))));
    let mut run = measured.into_iter().collect::<Result<Run>>()?;
    for half in ["cold", "warm"] {
        let ratios = pairs(figure(samples, &format!("{half}_ms"))?, base_ms, |ours, base| ours / base);
        run.insert(format!("{half}_ratio"), median(&ratios));
    }
    Ok(run)
}

fn figure<'a>(samples: &'a Samples, name: &str) -> Result<&'a [f64]> {
    samples.get(name).map(Vec::as_slice).with_context(|| format!("no figure `{name}`"))
}

/// Of the same round each, as the machine may change from one round to the next.
fn pairs(ours: &[f64], base: &[f64], of: fn(f64, f64) -> f64) -> Vec<f64> {
    ours.iter().zip(base).map(|(ours, base)| of(*ours, *base)).collect()
}

/// The middle; of an even number, between the two.
fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count => f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
    }
}
