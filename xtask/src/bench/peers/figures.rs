//! What all answers come to.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::session::{Answers, Samples, Variant};

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
    pub(super) about: String,
    pub(super) variant: Variant,
    /// Microseconds beyond the hand-written loop; of that loop itself, in all.
    pub(super) call_us: Option<f64>,
    pub(super) chunk_us: Option<f64>,
    /// One per world; none where no whole runs were measured.
    pub(super) runs: Vec<Run>,
}

/// A cold run, and a warm one after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) cold: Half,
    pub(super) warm: Half,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Half {
    pub(super) ms: f64,
    /// Its time over that of the best fixed size in the same language.
    pub(super) ratio: f64,
    pub(super) ooms: f64,
    /// Of the limit.
    pub(super) kept_percent: f64,
}

const OVERHEAD: &str = "overhead";
const LOOP: &str = "loop";

impl World {
    pub(super) fn parse(json: &str) -> Result<Vec<Self>> {
        Ok(serde_json::from_str(json)?)
    }
}

impl Row {
    pub(super) fn is_loop(&self) -> bool {
        self.peer == LOOP
    }

    pub(super) fn is_ours(&self) -> bool {
        self.language == "Rust" && !self.is_loop()
    }

    /// Those that are shown first: ranges with a cache, and whoever has neither.
    pub(super) fn chosen(rows: &[Self]) -> Vec<&Self> {
        let without = ["NoCache", "NoBatchsizeCache"];
        let is_chosen = |row: &&Self| {
            let form = !["batch", "chunked"].contains(&&*row.variant.form);
            row.is_loop() || form && !without.contains(&&*row.variant.cache)
        };
        rows.iter().filter(is_chosen).collect()
    }
}

/// A row per way to run a loop, in the order in which they were told; of hand-written loops one per
/// language.
pub(super) fn rows(answers: &[Answers], worlds: &[World]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for peer in answers {
        let language = &peer.hello.language;
        let mut loops = answers.iter().filter(|other| other.hello.peer == LOOP);
        let base = loops.find(|other| other.hello.language == *language);
        let base = Base::of(base.with_context(|| format!("no loop in {language}"))?, worlds)?;
        if peer.hello.peer == LOOP {
            rows.push(base.row()?);
        } else {
            let variants = variants(peer).into_iter().map(|variant| base.compared(peer, variant, worlds));
            rows.extend(variants.collect::<Result<Vec<_>>>()?);
        }
    }
    rows.sort_by(|a, b| a.language.cmp(&b.language));
    Ok(rows)
}

/// Each once, in order.
fn variants(peer: &Answers) -> Vec<Variant> {
    let mut variants: Vec<Variant> = peer.hello.cases.iter().map(|case| case.variant.clone()).collect();
    variants.dedup();
    variants
}

/// The hand-written loops of a language, with which all else is compared.
struct Base<'a> {
    answers: &'a Answers,
    /// In each world, the loop whose size is the fastest.
    best: Vec<&'a Samples>,
}

impl<'a> Base<'a> {
    fn of(answers: &'a Answers, worlds: &[World]) -> Result<Self> {
        let best = worlds.iter().map(|world| fastest(answers, world)).collect::<Result<_>>()?;
        Ok(Self { answers, best })
    }

    /// The costs of the loop over ranges, and in each world the best size.
    fn row(&self) -> Result<Row> {
        let overhead = find(self.answers, &by_hand("range"), OVERHEAD);
        let figure = |name: &str| overhead.and_then(|samples| samples.get(name)).map(|all| median(all));
        let (call_us, chunk_us) = (figure("call_us"), figure("chunk_us"));
        let runs = self.best.iter().map(|best| at_best(best)).collect::<Result<_>>()?;
        let variant = Variant { policy: "best fixed size".to_owned(), ..by_hand("range") };
        Ok(Row { call_us, chunk_us, runs, ..row(self.answers, variant) })
    }

    fn compared(&self, peer: &Answers, variant: Variant, worlds: &[World]) -> Result<Row> {
        let call_us = self.beyond(peer, &variant, "call_us")?;
        let chunk_us = self.beyond(peer, &variant, "chunk_us")?;
        let samples = worlds.iter().map(|world| find(peer, &variant, &world.name));
        let runs = samples.zip(&self.best).filter_map(|(samples, best)| Some(run(samples?, best)));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        ensure!(runs.is_empty() || runs.len() == worlds.len(), "{variant:?}: not in every world");
        Ok(Row { call_us, chunk_us, runs, ..row(peer, variant) })
    }

    /// What it takes beyond the loop of the same form, round by round.
    fn beyond(&self, peer: &Answers, variant: &Variant, name: &str) -> Result<Option<f64>> {
        let Some(samples) = find(peer, variant, OVERHEAD).and_then(|samples| samples.get(name)) else {
            return Ok(None);
        };
        // A form of another name is a function with a size.
        let form = Some(&*variant.form).filter(|form| ["range", "chunked"].contains(form));
        let base = find(self.answers, &by_hand(form.unwrap_or("batch")), OVERHEAD);
        let base = base.and_then(|samples| samples.get(name));
        let base = base.with_context(|| format!("no loop to compare {variant:?} with"))?;
        Ok(Some(median(&pairs(samples, base, |ours, base| ours - base))))
    }
}

/// The name of a loop without a library, where its size does not matter.
fn by_hand(form: &str) -> Variant {
    Variant { form: form.to_owned(), cache: String::new(), policy: String::new() }
}

fn row(peer: &Answers, variant: Variant) -> Row {
    let hello = &peer.hello;
    Row {
        language: hello.language.clone(),
        peer: format!("{} {}", hello.peer, hello.version).trim_end().to_owned(),
        about: hello.about.clone(),
        variant,
        call_us: None,
        chunk_us: None,
        runs: Vec::new(),
    }
}

fn find<'a>(peer: &'a Answers, variant: &Variant, group: &str) -> Option<&'a Samples> {
    let mut cases = peer.hello.cases.iter().zip(&peer.samples);
    cases.find(|(case, _)| case.variant == *variant && case.group == group).map(|(_, samples)| samples)
}

/// The loop that takes the least time in a world.
fn fastest<'a>(answers: &'a Answers, world: &World) -> Result<&'a Samples> {
    let sizes = answers.hello.cases.iter().zip(&answers.samples);
    let sizes = sizes.filter(|(case, _)| case.group == world.name);
    let timed = sizes.map(|(_, samples)| Ok((median(&loop_ms(samples)?), samples)));
    let timed = timed.collect::<Result<Vec<_>>>()?;
    let fastest = timed.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
    fastest.map(|(_, samples)| samples).with_context(|| format!("world `{}`: no loop", world.name))
}

/// Its cold and its warm run are the same work: both tell its time.
fn loop_ms(samples: &Samples) -> Result<Vec<f64>> {
    Ok(pairs(figure(samples, "cold_ms")?, figure(samples, "warm_ms")?, |cold, warm| {
        f64::midpoint(cold, warm)
    }))
}

fn run(samples: &Samples, best: &Samples) -> Result<Run> {
    let base = loop_ms(best)?;
    Ok(Run { cold: half(samples, "cold", &base)?, warm: half(samples, "warm", &base)? })
}

/// The loop with the best size, which is what all else is compared with.
fn at_best(best: &Samples) -> Result<Run> {
    let (ms, kept_percent) = (median(&loop_ms(best)?), median(figure(best, "cold_kept_percent")?));
    let half = Half { ms, ratio: 1.0, ooms: 0.0, kept_percent };
    Ok(Run { cold: half, warm: half })
}

fn half(samples: &Samples, half: &str, base_ms: &[f64]) -> Result<Half> {
    let all = |name: &str| figure(samples, &format!("{half}_{name}"));
    let ms = all("ms")?;
    let ratio = median(&pairs(ms, base_ms, |ours, base| ours / base));
    let (ooms, kept_percent) = (median(all("ooms")?), median(all("kept_percent")?));
    Ok(Half { ms: median(ms), ratio, ooms, kept_percent })
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
