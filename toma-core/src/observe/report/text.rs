//! A report in a few lines, for a tired reader: each line begins with a word that names its subject.

use std::borrow::Cow;
use std::fmt::{self, Formatter};
use std::iter;
use std::time::Duration;

use super::{Answer, Fullest, Predicted, Report, Shortfall, Tried, Wait};
use crate::classify::Class;
use crate::device::Rung;
use crate::observe::Reason;
use crate::text::{bytes, count};

/// Number of entries of a long history that are shown at its start, and again before its last one.
const SHOWN: usize = 4;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.summary())?;
        if self.attempts == 0 {
            return Ok(());
        }
        let lines = [
            ("started", Some(self.started())),
            (
                "predict",
                self.predicted
                    .map(|predicted| self.predicted_line(&predicted))
                    .or_else(|| self.unpredicted.as_deref().map(|why| format!("nothing, because {why}"))),
            ),
            ("tried", self.history()),
            (if self.tried.is_empty() { "known" } else { "learned" }, self.evidence()),
            ("why", self.why()),
            ("filled", self.filled.as_deref().map(under_each_other)),
            ("lost", self.lost()),
            ("waited", self.waited()),
            ("joined", (self.joined > 0).then(|| self.joined())),
            ("fallback", self.fell_back.then(|| "when nothing smaller was left".to_owned())),
            ("left out", items(&self.left_out)),
            ("next", Some(self.outlook())),
            ("callers", (!self.callers.is_empty()).then(|| self.callers.to_string())),
        ];
        lines.iter().try_for_each(|(about, line)| match line {
            Some(line) => write!(f, "\n  {about:<8} {line}"),
            None => Ok(()),
        })
    }
}

impl Report {
    pub(super) fn summary(&self) -> String {
        let Self { done, length, attempts, out_of_memory, .. } = *self;
        if attempts == 0 {
            return "nothing was tried".to_owned();
        }
        let work = match (self.gave_up, length) {
            (None, None) => format!("a batch of {done} in"),
            (None, Some(length)) if length == done => format!("{} in", count(done, "item")),
            (None | Some(Reason::LeftOut), Some(length)) => {
                format!("{done} of {} in", count(length, "item"))
            }
            (Some(_), None) => "gave up a batch after".to_owned(),
            (Some(_), Some(length)) => format!("gave up at {done} of {} after", count(length, "item")),
        };
        let failed = match out_of_memory {
            0 => Cow::Borrowed("never"),
            failed => failed.to_string().into(),
        };
        format!("{work} {}, {failed} out of memory", count(attempts, "attempt"))
    }

    fn started(&self) -> String {
        let start = self.size(self.start);
        match self.remembered {
            None => format!("at {start}, nothing was remembered"),
            Some(size) if size == self.start => format!("at {start}, remembered"),
            Some(size) => format!("at {start}, {size} was remembered"),
        }
    }

    fn predicted_line(&self, predicted: &Predicted) -> String {
        let Predicted { size, needs_bytes, free_bytes } = *predicted;
        let of = self.length.map(|length| format!(" of {length}")).unwrap_or_default();
        let took = self.fullest.map(|full| format!("; took {}", bytes(full.peak_bytes))).unwrap_or_default();
        format!("{size}{of} need {}, {} free{took}", bytes(needs_bytes), bytes(free_bytes))
    }

    /// Formats a size, with its unit if it does not count items.
    fn size(&self, size: usize) -> String {
        if self.sizes_are_costs { format!("cost {size}") } else { size.to_string() }
    }

    /// Formats the sizes tried; of a long history only the first and the last.
    fn history(&self) -> Option<String> {
        let last = self.tried.last()?;
        let nothing = Tried::default();
        let before = iter::once(&nothing).chain(&self.tried).zip(&self.tried);
        let mut entries: Vec<String> = before.map(|(before, tried)| self.entry(before, tried)).collect();
        let skipped = SHOWN..entries.len().saturating_sub(SHOWN + 1);
        if skipped.len() > 1 {
            let gap = gap(&self.tried[skipped.clone()]);
            entries.splice(skipped, [gap]);
        }
        let line = entries.concat();
        let end = match (self.omitted(), last.answer) {
            (0, Some(Answer::GiveUp(_))) => "gave up".to_owned(),
            (0, Some(Answer::LeaveOut { index, .. })) => format!("item {index} left out"),
            (0, _) => String::new(),
            (omitted, _) => format!("... {}", count(omitted, "more attempt")),
        };
        let line = if end.is_empty() { line.trim_end_matches([' ', '-', '>', ',']) } else { &line };
        Some(format!("{line}{end}"))
    }

    /// Formats an entry as the result of the answer to `before`, with the separator to the next entry.
    fn entry(&self, before: &Tried, tried: &Tried) -> String {
        // With costs, `size` is the largest of several attempts.
        let up_to = if self.sizes_are_costs && tried.succeeded > 1 && tried.size > 0 { "up to " } else { "" };
        let size = format!("{up_to}{}", tried.size);
        let size = match before.answer {
            None | Some(Answer::Shrink(_) | Answer::GiveUp(_)) => size,
            Some(Answer::Again(rung)) => again(&size, rung, before.wait),
            Some(Answer::FallBack(_)) => format!("in fallback {size}"),
            Some(Answer::Follow { elsewhere, .. }) => format!("{size} ({elsewhere})"),
            Some(Answer::LeaveOut { index, .. }) => format!("item {index} left out, {size}"),
        };
        // The words about the answer follow the size, so the outcome needs a comma.
        let has_words = match before.answer {
            Some(Answer::Again(rung)) => rung != Rung::Transient,
            Some(Answer::Follow { .. }) => true,
            _ => false,
        };
        let comma = if has_words && tried.succeeded > 0 { "," } else { "" };
        let then = if tried.failed.is_some() { " -> " } else { ", " };
        format!("{size}{comma}{}{then}", outcome(tried))
    }

    /// Describes the limit: by bytes if they are measured, or else by the sizes around it. `None` if neither is known,
    /// because a size that works is no news, or if a failure was injected, because that is no limit.
    fn evidence(&self) -> Option<String> {
        let works = self.bounds.largest_success.filter(|_| !self.injected)?;
        let fails = self.bounds.smallest_failure.filter(|&fails| fails > works);
        if works > self.largest_that_ran() {
            return Some(self.past_evidence(works, fails));
        }
        let near = match (self.fullest, fails) {
            (Some(fullest), _) => fullest.to_string(),
            (None, Some(fails)) if fails - works == 1 => format!("{works} is the limit"),
            (None, Some(fails)) => {
                let percent = works as u128 * 100 / fails as u128;
                format!("{works} is at least {percent} % of the limit")
            }
            (None, None) => return None,
        };
        let fails = fails.map_or(String::new(), |fails| format!(", {fails} does not"));
        Some(format!("{works} works{fails}; {near}"))
    }

    /// Number of attempts beyond the recorded history.
    fn omitted(&self) -> usize {
        self.attempts - self.tried.iter().map(Tried::attempts).sum::<usize>()
    }

    /// The largest size that has worked in this call: 0 if none has, `usize::MAX` if the history was cut.
    fn largest_that_ran(&self) -> usize {
        if self.tried.is_empty() {
            return self.start;
        }
        if self.omitted() > 0 {
            return usize::MAX;
        }
        self.tried.iter().filter(|tried| tried.succeeded > 0).map(|tried| tried.size).max().unwrap_or(0)
    }

    /// Describes bounds that only earlier calls have found: as much memory need not be free now.
    fn past_evidence(&self, works: usize, fails: Option<usize>) -> String {
        let near = self.fullest.map_or(String::new(), |fullest| format!("; {fullest}"));
        let fails = fails.map_or(String::new(), |fails| format!(", {fails} did not"));
        format!("{works} worked in an earlier call{fails}{near}")
    }

    fn why(&self) -> Option<String> {
        let reason = self.gave_up?;
        Some(match self.shortfall {
            None => reason.to_string(),
            Some(shortfall) => format!("{reason}, and it {shortfall}"),
        })
    }

    fn lost(&self) -> Option<String> {
        let Self { out_of_memory, time_lost, time_lost_is_exact, time, .. } = *self;
        if out_of_memory == 0 {
            return None;
        }
        Some(match (time_lost_is_exact, time) {
            (true, Some(time)) if !time.is_zero() => {
                let percent = 100.0 * time_lost.as_secs_f64() / time.as_secs_f64();
                format!("{time_lost:.1?} of {time:.1?} ({percent:.1} %) in attempts that failed")
            }
            (true, _) => format!("{time_lost:.1?} in attempts that failed"),
            (false, _) if time_lost == Duration::ZERO => {
                format!("the time of {}, not measured without an observer", count(out_of_memory, "attempt"))
            }
            (false, _) => format!("at least {time_lost:.1?} in attempts that failed"),
        })
    }

    fn joined(&self) -> String {
        format!("{} of other ranks, after this one was done", count(self.joined, "attempt"))
    }

    fn waited(&self) -> Option<String> {
        (!self.waited.is_zero()).then(|| format!("{:.1?} for the device", self.waited))
    }

    fn outlook(&self) -> String {
        let start = self.size(self.start);
        match (self.settled, self.cache) {
            (Some(size), Some(cache)) if self.is_remembered => {
                format!("starts from {}, remembered in {cache}", self.size(size))
            }
            (_, Some(cache)) => format!("starts at {start} again, because {cache} remembers nothing"),
            (_, None) if self.injected => {
                format!("starts at {start} again, because failures were injected and nothing is remembered")
            }
            (_, None) if self.fell_back => {
                format!("starts at {start} again, because nothing is learned in fallback")
            }
            (_, None) if !matches!(self.gave_up, None | Some(Reason::LeftOut)) => {
                format!("starts at {start} again, because nothing was settled")
            }
            (_, None) => format!("starts at {start} again"),
        }
    }
}

/// Indents lines to the column in which the text of a report line begins.
fn under_each_other(lines: &str) -> String {
    lines.lines().collect::<Vec<_>>().join("\n           ")
}

/// Lists the first 8 of the items.
fn items(items: &[usize]) -> Option<String> {
    let noun = if items.len() > 1 { "items" } else { "item" };
    let shown = items.iter().take(8).map(ToString::to_string);
    let shown = shown.chain((items.len() > 8).then(|| "...".to_owned())).collect::<Vec<_>>().join(", ");
    let fits =
        if items.len() > 1 { "which do not fit by themselves" } else { "which does not fit by itself" };
    (!items.is_empty()).then(|| format!("{noun} {shown}, {fits}"))
}

/// Formats a size that was tried again, with the reason.
fn again(size: &str, rung: Rung, wait: Option<Wait>) -> String {
    // A wait of less than 1 ms is not worth a word.
    let waited = wait.filter(|wait| wait.elapsed >= Duration::from_millis(1));
    let waited = waited.map(|wait| format!("waited {:.1?}", wait.elapsed));
    match rung {
        Rung::Transient => format!("{size} again"),
        Rung::Release => format!("{size} again, cached memory released"),
        Rung::Exclusive if wait.is_some_and(|wait| wait.exclusive) => {
            let waited = waited.map_or_else(String::new, |waited| format!(" ({waited})"));
            format!("{size} again, with the device to itself{waited}")
        }
        Rung::Exclusive => {
            format!("{size} again ({} in vain for the device)", waited.as_deref().unwrap_or("waited"))
        }
        Rung::Leaner => format!("{size} again, with a leaner plan"),
        Rung::Hooks => format!("{size} again, after the release hooks"),
    }
}

/// Describes the outcome of a size. Running out of memory needs no words, because most failures are of that kind.
fn outcome(tried: &Tried) -> String {
    let worked = match tried.succeeded {
        0 => String::new(),
        1 => " worked once".to_owned(),
        succeeded => format!(" worked {succeeded} times"),
    };
    let failed = tried.failed.filter(|_| !matches!(tried.answer, Some(Answer::Follow { .. })));
    match failed {
        None | Some(Class::OutOfMemory) => worked,
        Some(class) => format!("{worked} ({class})"),
    }
}

/// Stands for the entries that are left out.
fn gap(skipped: &[Tried]) -> String {
    let sizes = || skipped.iter().map(|tried| tried.size);
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    format!("... {} between {least} and {most} ..., ", count(skipped.len(), "change"))
}

impl Tried {
    pub(super) fn attempts(&self) -> usize {
        self.succeeded + usize::from(self.failed.is_some())
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.size, outcome(self))
    }
}

impl fmt::Display for Fullest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let &Self { size, peak_bytes, available_bytes } = self;
        let percent = 100.0 * self.share();
        write!(f, "{size} took {} of {} ({percent:.0} %)", bytes(peak_bytes), bytes(available_bytes))
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let &Self { size, needs_bytes, per_item_bytes, free_bytes } = self;
        write!(f, "does not fit at size {size}: needs {}", bytes(needs_bytes))?;
        if let Some(per_item) = per_item_bytes {
            let of_items = per_item.saturating_mul(u64::try_from(size).unwrap_or(u64::MAX));
            let fixed = bytes(needs_bytes.saturating_sub(of_items));
            write!(f, " ({fixed} in every piece, {} per item)", bytes(per_item))?;
        }
        write!(f, ", {} free", bytes(free_bytes))
    }
}
