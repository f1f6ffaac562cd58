//! The table, and the bars.

use std::fmt;

use crate::form::Form;
use crate::policies::Entry;
use crate::source::Source;

pub(crate) const HEADER: &str = "\
| policy | form | memory source | cold: median | p95 | worst | warm: median | p95 | OOMs: median | p95 | kept: median | p5 |
|---|---|---|---|---|---|---|---|---|---|---|---|";

/// Figures of a cold run and a warm one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs {
    /// Time over the oracle's.
    pub(crate) cold: f64,
    pub(crate) warm: f64,
    /// Failures of the cold run.
    pub(crate) out_of_memory: usize,
    /// The size cached after the cold run, as a share of the limit.
    pub(crate) kept: f64,
}

/// The largest allowed medians of time over the oracle's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bars {
    pub(crate) cold: f64,
    pub(crate) warm: f64,
}

impl Bars {
    pub(crate) const WIDE: Self = Self { cold: 1.05, warm: 1.01 };
    /// Bars for counted or predicted bytes, in simulated time.
    pub(crate) const NARROW: Self = Self { cold: 1.02, warm: 1.005 };
}

/// One line of the table: a policy with one kind of memory source.
pub(crate) struct Row {
    policy: &'static str,
    form: Form,
    source: Source,
    cold: [f64; 3],
    warm: [f64; 2],
    out_of_memory: [f64; 2],
    kept: [f64; 2],
}

impl Row {
    #[expect(clippy::cast_precision_loss, reason = "there are few failures")]
    pub(crate) fn of((policy, form): (&'static str, Form), source: Source, runs: &[Runs]) -> Self {
        let figures = |figure: fn(&Runs) -> f64| Figures::of(runs.iter().map(figure).collect());
        let (cold, warm) = (figures(|runs| runs.cold), figures(|runs| runs.warm));
        let (failed, kept) = (figures(|runs| runs.out_of_memory as f64), figures(|runs| runs.kept));
        Self {
            policy,
            form,
            source,
            cold: [cold.at(50), cold.at(95), cold.at(100)],
            warm: [warm.at(50), warm.at(95)],
            out_of_memory: [failed.at(50), failed.at(95)],
            kept: [kept.at(50), kept.at(5)],
        }
    }

    /// The bars that are not met, in words.
    pub(crate) fn misses(&self, policy: &Entry, bars: Bars) -> Vec<String> {
        let failures = match (self.source, self.form) {
            (Source::Counts, _) => 1.0,
            (_, Form::Range) => 7.0,
            // Returning within 20 steps of an unnoticed rise, at any time, needs more failures than that by itself.
            (_, Form::Batch) => f64::INFINITY,
        };
        let bars = [
            ("cold, median", self.cold[0], bars.cold),
            ("cold, p95", self.cold[1], 1.15),
            ("warm, median", self.warm[0], bars.warm),
            ("failures, median", self.out_of_memory[0], failures),
            ("1 - kept, median", 1.0 - self.kept[0], 0.05),
        ];
        let missed = bars.into_iter().filter(|(_, figure, bar)| policy.has_bars && figure > bar);
        missed
            .map(|(title, figure, bar)| {
                let (form, source) = (self.form.word(), self.source.word());
                format!("{} {form} {source} {title}: {figure:.3}, not {bar}", self.policy)
            })
            .collect()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, form, source, cold, warm, out_of_memory, kept } = self;
        let (form, source) = (form.word(), source.word());
        write!(f, "| `{policy}` | {form} | {source} | {:.3} | {:.3} | {:.3} ", cold[0], cold[1], cold[2])?;
        write!(f, "| {:.4} | {:.3} | {} | {} ", warm[0], warm[1], out_of_memory[0], out_of_memory[1])?;
        write!(f, "| {:.3} | {:.3} |", kept[0], kept[1])
    }
}

/// Figures in order.
pub(crate) struct Figures(Vec<f64>);

impl Figures {
    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_unstable_by(f64::total_cmp);
        Self(figures)
    }

    /// The figure that this percentage of the others does not exceed.
    pub(crate) fn at(&self, percent: usize) -> f64 {
        self.0.get((self.0.len().saturating_sub(1)) * percent / 100).copied().unwrap_or(f64::NAN)
    }
}
