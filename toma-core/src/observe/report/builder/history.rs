//! What calls go through that fail, or change their step.

use std::time::Duration;

use crate::observe::report::{Shortfall, Tried, Wait};
use crate::observe::{Answer, Reason};
use crate::stack::Callers;

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
    /// Items that were left out: how many, and the first of them.
    pub(super) left_out_count: usize,
    pub(super) left_out: Vec<usize>,
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
    pub(super) fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::FallBack(_) => self.fell_back = true,
            Answer::GiveUp(reason) => self.gave_up = Some(reason),
            Answer::LeaveOut { index, .. } => {
                self.left_out_count += 1;
                keep(&mut self.left_out, index);
            }
            Answer::Again(_) | Answer::Shrink(_) => {}
        }
        if let Some(last) = self.last() {
            last.answer = Some(answer);
        }
    }

    /// The attempt that follows so many has waited for its turn.
    pub(super) fn waited(&mut self, elapsed: Duration, exclusive: bool, attempts: usize) {
        self.waited += elapsed;
        if self.attempts_told == attempts
            && let Some(tried @ Tried { answer: Some(Answer::Again(_)), .. }) = self.last()
        {
            let before = tried.wait.map_or(Duration::ZERO, |wait| wait.elapsed);
            tried.wait = Some(Wait { elapsed: before + elapsed, exclusive });
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
            left_out_count: 0,
            left_out: Vec::new(),
            settled: None,
            cache: None,
            callers: Callers::default(),
        }
    }
}
