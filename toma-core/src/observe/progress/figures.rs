use std::time::Duration;

use indicatif::HumanDuration;

use crate::classify::Class;
use crate::observe::{Answer, EventKind};
use crate::text::bytes;

/// Letters of a name that are shown; the bar needs the rest of the line.
const MAX_NAME: usize = 24;

/// The progress of one call, and its text.
pub(super) struct Progress {
    pub(super) name: String,
    /// Items in all; `None` for a batch.
    pub(super) length: Option<usize>,
    pub(super) done: usize,
    step: usize,
    out_of_memory: usize,
    /// Time in attempts that succeeded: failed ones are no evidence of the time left.
    busy: Duration,
    /// The last failure, until its answer is known.
    failure: String,
}

impl Progress {
    pub(super) fn new(name: &str, start: usize, length: Option<usize>) -> Self {
        Self {
            name: short(name),
            length,
            done: 0,
            step: start,
            out_of_memory: 0,
            busy: Duration::ZERO,
            failure: String::new(),
        }
    }

    /// Updates the progress by an event; returns a line if the event is worth one that stays.
    pub(super) fn learn(&mut self, kind: &EventKind<'_>) -> Option<String> {
        match *kind {
            EventKind::Succeeded { end, elapsed, .. } => {
                self.done = end;
                self.busy += elapsed;
            }
            EventKind::Failed { class, requested_bytes, free_bytes, .. } => {
                self.out_of_memory += usize::from(class == Class::OutOfMemory);
                self.failure = describe(class, requested_bytes, free_bytes);
            }
            EventKind::Probe { to, .. } => self.step = to,
            EventKind::Answered { size, answer } => return self.answered(size, answer),
            _ => {}
        }
        None
    }

    /// Returns a line for the answer to a failure, except for a retry at the same size.
    fn answered(&mut self, size: usize, answer: Answer) -> Option<String> {
        match answer {
            Answer::Follow { to, .. } => {
                self.step = to;
                return Some(self.line_of(&format!("{size}, {answer}")));
            }
            Answer::Again(_) => return None,
            Answer::GiveUp(_) if self.failure.is_empty() => return None,
            Answer::Shrink(to) | Answer::FallBack(to) => self.step = to,
            _ => {}
        }
        Some(self.line_of(&format!("{} at {size}, {answer}", self.failure)))
    }

    /// Rate, time left, step and failures, as far as they are known.
    pub(super) fn figures(&self) -> String {
        let mut figures = Vec::with_capacity(4);
        if let Some(rate) = self.rate() {
            figures.push(format!("{}/s", rounded(rate)));
            figures.extend(self.left(rate).map(|left| format!("ETA {:#}", HumanDuration(left))));
        }
        let word = if self.length.is_some() { "step" } else { "batch size" };
        figures.push(format!("{word} {}", self.step));
        if self.out_of_memory > 0 {
            figures.push(format!("{} OOM", self.out_of_memory));
        }
        figures.join(" · ")
    }

    /// Items done and figures in one line, for a log.
    pub(super) fn line(&self) -> String {
        let items = self.length.map_or(String::new(), |length| format!("{} of {length} · ", self.done));
        self.line_of(&(items + &self.figures()))
    }

    fn line_of(&self, text: &str) -> String {
        format!("toma: {}: {text}", self.name)
    }

    /// Items per second.
    #[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
    fn rate(&self) -> Option<f64> {
        let rate = self.done as f64 / self.busy.as_secs_f64();
        (self.length.is_some() && self.done > 0 && rate.is_finite()).then_some(rate)
    }

    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn left(&self, rate: f64) -> Option<Duration> {
        let items = self.length?.checked_sub(self.done).filter(|items| *items > 0)?;
        Duration::try_from_secs_f64(items as f64 / rate).ok()
    }
}

fn describe(class: Class, requested_bytes: Option<u64>, free_bytes: Option<u64>) -> String {
    if !matches!(class, Class::OutOfMemory | Class::Transient) {
        // The error is returned to the caller, with more details than this line.
        return String::new();
    }
    let figures = [(requested_bytes, "requested"), (free_bytes, "free")].into_iter();
    let figures: Vec<_> =
        figures.filter_map(|(figure, word)| Some(format!("{} {word}", bytes(figure?)))).collect();
    if figures.is_empty() { class.to_string() } else { format!("{class} ({})", figures.join(", ")) }
}

/// The function's own name, without its path, and not longer than the eye takes in.
fn short(name: &str) -> String {
    let last = name.rsplit("::").next().unwrap_or(name);
    match last.char_indices().nth(MAX_NAME) {
        None => last.to_owned(),
        Some((end, _)) => format!("{}…", &last[..end]),
    }
}

fn rounded(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}
