//! The step that a program repeats: noticed, recorded twice, and followed.

use std::sync::Arc;
use std::time::Duration;

use toma_plan::residency::{Periods, Plan, Step, Timeline};

use super::following::Following;
use super::recording::Recording;

/// What is known of the step, under the lock of the table.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    periods: Periods,
    /// Something has left: before that there is nothing to plan.
    pub(crate) is_wanted: bool,
    /// The program says where steps begin.
    is_told: bool,
    state: State,
    /// What was followed last, and may be again.
    known: Option<Arc<Known>>,
    /// Steps of the program's in a row that were not the known one.
    misses: u32,
    pub(crate) deviations: u64,
}

/// So many in a row are a new step.
const MOST_MISSES: u32 = 3;

#[derive(Debug, Default)]
enum State {
    #[default]
    Watching,
    Recording(Recording),
    Following(Following),
}

/// A step that has been recorded.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) step: Step,
    pub(crate) timeline: Timeline,
    pub(crate) prints: Vec<u64>,
    /// The storages that each operator makes, in order.
    pub(crate) made: Vec<Vec<usize>>,
    pub(crate) plan: Option<Plan>,
}

/// What an operator finds or makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    pub(crate) writes: bool,
}

/// What follows when an operator has ended.
#[derive(Debug, Default)]
pub(crate) struct Ensuing {
    /// A step that is known from now on, without a plan.
    pub(crate) known: Option<Box<Known>>,
    /// What leaves, by the plan.
    pub(crate) leaves: Vec<u64>,
    /// A repetition of the step has ended.
    pub(crate) is_round: bool,
}

impl Steps {
    /// Whether operators are to be told.
    pub(crate) fn is_active(&self) -> bool {
        self.is_wanted || self.is_told
    }

    /// An operator begins. Returns what it allocates beyond its start, where it is known.
    pub(crate) fn begins(&mut self, print: u64, found: &[Found], gone: impl Fn(u64) -> bool) -> u64 {
        let period = if self.is_told { None } else { self.periods.push(print) };
        match &mut self.state {
            State::Watching => {
                if let Some(period) = period.filter(|period| *period > 1) {
                    // From the next operator on, which begins the third repetition.
                    self.state = State::Recording(Recording::of(Some(period)));
                }
                0
            }
            State::Recording(recording) => {
                recording.begins(print, found, gone);
                0
            }
            State::Following(following) => {
                let inside_bytes = following.begins(print, found);
                if inside_bytes.is_none() {
                    self.deviations += 1;
                    self.state = State::Watching;
                }
                inside_bytes.unwrap_or(0)
            }
        }
    }

    /// It has ended.
    pub(crate) fn ends(&mut self, made: &[Found], inside_bytes: u64, duration: Duration) -> Ensuing {
        match &mut self.state {
            State::Watching => Ensuing::default(),
            State::Following(following) => following.ends(made),
            State::Recording(recording) => {
                recording.ends(made, inside_bytes, duration);
                let is_whole = !self.is_told && recording.is_whole();
                Ensuing { known: if is_whole { self.recorded() } else { None }, ..Ensuing::default() }
            }
        }
    }

    /// It has failed: what comes next is no repetition.
    pub(crate) fn fails(&mut self) {
        self.deviations += u64::from(matches!(self.state, State::Following(_)));
        self.state = State::Watching;
    }

    fn recorded(&mut self) -> Option<Box<Known>> {
        let State::Recording(recording) = std::mem::take(&mut self.state) else { return None };
        recording.folded().map(Box::new)
    }

    /// The program says that a step begins. Returns one that is known from now on.
    pub(crate) fn step_begins(&mut self) -> Option<Box<Known>> {
        if !std::mem::replace(&mut self.is_told, true) {
            // What was noticed was not what the program means.
            (self.state, self.known) = (State::Watching, None);
        }
        match &mut self.state {
            State::Recording(recording) if recording.half.is_none() && !recording.rows.is_empty() => {
                recording.half = Some(recording.rows.len());
                None
            }
            State::Recording(recording) if recording.is_whole() => {
                self.recorded().or_else(|| self.record_anew())
            }
            State::Following(following) if following.at == 0 => {
                self.misses = 0;
                None
            }
            _ => {
                self.misses += 1;
                match self.known.clone().filter(|_| self.misses < MOST_MISSES) {
                    Some(known) => {
                        self.state = State::Following(Following::of(known));
                        None
                    }
                    None => self.record_anew(),
                }
            }
        }
    }

    fn record_anew(&mut self) -> Option<Box<Known>> {
        self.state = State::Recording(Recording::of(None));
        None
    }

    /// From the next operator on, which is the first of it.
    pub(crate) fn follow(&mut self, known: Arc<Known>) {
        self.state = State::Following(Following::of(Arc::clone(&known)));
        self.known = Some(known);
    }

    pub(crate) fn known(&self) -> Option<&Arc<Known>> {
        self.known.as_ref()
    }

    pub(crate) fn following(&self) -> Option<&Following> {
        match &self.state {
            State::Following(following) => Some(following),
            _ => None,
        }
    }

    /// Another plan for the step that is known, from its next repetition on.
    pub(crate) fn replan(&mut self, known: Arc<Known>) {
        if let State::Following(following) = &mut self.state {
            following.known = Arc::clone(&known);
        }
        self.known = Some(known);
    }
}

/// What stands for an operator: its name, and what it works on.
pub(crate) fn print_of(name: &str, found: &[Found]) -> u64 {
    // Names live as long as their library.
    let name = name.as_ptr().addr() as u64;
    let mixed = |sum: u64, number: u64| (sum.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    found.iter().fold(name, |sum, one| mixed(sum, one.bytes << 1 | u64::from(one.writes)))
}
