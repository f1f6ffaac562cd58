//! What calls go through that fail, or change their step.

use std::time::Duration;

use crate::cache::Callers;
use crate::engine::machine::Verdict;
use crate::observe::{Answer, Reason, Shortfall, Tried};

/// Entries that are kept; a call that changes its step without end must not eat the memory.
const MOST: usize = 256;

/// What calls that never fail and never change their step do not have.
#[derive(Debug)]
pub(super) struct History {
    pub(super) tried: Vec<Tried>,
    /// There were more.
    is_cut: bool,
    pub(super) attempts_told: usize,
    pub(super) out_of_memory: usize,
    pub(super) time_lost: Duration,
    pub(super) exact: bool,
    pub(super) gave_up: Option<Reason>,
    pub(super) waited: Duration,
    pub(super) fell_back: bool,
    pub(super) shortfall: Option<Shortfall>,
    /// Items that failed alone: how many were left out, and the first of them.
    pub(super) left_out: usize,
    pub(super) set_aside: Vec<usize>,
    /// The first of those that were done in another memory.
    pub(super) moved: Vec<usize>,
    pub(super) settled: Option<usize>,
    pub(super) cache: Option<&'static str>,
    pub(super) callers: Callers,
}

impl History {
    pub(super) fn add(&mut self, tried: Tried) {
        self.is_cut = self.tried.len() == MOST;
        keep(&mut self.tried, tried);
    }

    /// What is done about the failure that came last.
    pub(super) fn judged(&mut self, verdict: Verdict) {
        let answer = self.answer(verdict);
        if let Some(last) = self.last() {
            last.answer = Some(answer);
        }
    }

    fn answer(&mut self, verdict: Verdict) -> Answer {
        match verdict {
            Verdict::Again(rung) => Answer::Again { rung, waited: Duration::ZERO, alone: false },
            Verdict::Shrink(_) => Answer::Smaller,
            Verdict::Cut(items) => Answer::Fewer(items),
            Verdict::FallBack(_) => {
                self.fell_back = true;
                Answer::FellBack
            }
            Verdict::FallBackAlone { index, .. } => {
                keep(&mut self.moved, index);
                Answer::FellBackAlone(index)
            }
            Verdict::GiveUp(reason) => {
                self.gave_up = Some(reason);
                Answer::GaveUp
            }
            Verdict::SetAside { index, .. } => {
                self.left_out += 1;
                self.moved.pop_if(|moved| *moved == index);
                keep(&mut self.set_aside, index);
                Answer::SetAside(index)
            }
        }
    }

    /// Others were waited for before the attempt that follows so many.
    pub(super) fn waited(&mut self, elapsed: Duration, is_alone: bool, attempts: usize) {
        self.waited += elapsed;
        if self.attempts_told == attempts
            && let Some(Tried { answer: Some(Answer::Again { waited, alone, .. }), .. }) = self.last()
        {
            *waited += elapsed;
            *alone = is_alone;
        }
    }

    /// The entry that was made last, unless it had no place any more.
    fn last(&mut self) -> Option<&mut Tried> {
        if self.is_cut { None } else { self.tried.last_mut() }
    }
}

/// The first of many.
fn keep<T>(list: &mut Vec<T>, entry: T) {
    if list.len() < MOST {
        list.push(entry);
    }
}

impl Default for History {
    fn default() -> Self {
        Self {
            tried: Vec::new(),
            is_cut: false,
            attempts_told: 0,
            out_of_memory: 0,
            time_lost: Duration::ZERO,
            exact: true,
            gave_up: None,
            waited: Duration::ZERO,
            fell_back: false,
            shortfall: None,
            left_out: 0,
            set_aside: Vec::new(),
            moved: Vec::new(),
            settled: None,
            cache: None,
            callers: Callers::default(),
        }
    }
}
