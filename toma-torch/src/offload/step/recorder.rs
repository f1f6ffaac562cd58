//! Records a step over two repetitions.
//!
//! # Why
//!
//! A detected step is cut where the fewest bytes are live, because a plan covers one repetition and storages that live
//! across its ends cost moves.
//!
//! Operators are recorded before a period is confirmed, because by then the two repetitions of a step have passed.

use std::collections::HashMap;
use std::time::Duration;

use toma_plan::residency::{Operator, Step, Storage, Timeline, Use};

use super::known_step::{Bound, KnownStep, UsedStorage};

/// Operators of two repetitions. The second one shows which storages live from one repetition into the next.
///
/// If the program does not mark steps, all operators are recorded until the last ones turn out to be two repetitions.
#[derive(Debug, Default)]
pub(crate) struct StepRecorder {
    /// Index of the operator at which the program has marked the second repetition.
    pub(crate) half: Option<usize>,
    pub(crate) rows: Vec<RecordedOperator>,
    lives: Vec<Life>,
    /// Indices in `lives` of live storages, by id.
    numbers: HashMap<u64, usize>,
    living_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct RecordedOperator {
    print: u64,
    /// Bytes of all storages that are live when the operator begins.
    living_bytes: u64,
    uses: Vec<Use>,
    made: Vec<usize>,
    inside_bytes: u64,
    duration: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Life {
    bytes: u64,
    birth: Option<usize>,
    death: Option<usize>,
}

impl StepRecorder {
    /// Returns the step if both marked repetitions end here.
    pub(crate) fn marked_step(&self) -> Option<(KnownStep, Bound)> {
        self.folded(self.half.filter(|half| self.rows.len() == 2 * half)?)
    }

    pub(crate) fn begins(&mut self, print: u64, found: &[UsedStorage], gone: impl Fn(u64) -> bool) {
        self.end_lives(gone);
        let uses = found.iter().map(|one| Use { storage: self.number(one, None), writes: one.writes });
        let uses = uses.collect();
        let living_bytes = self.living_bytes;
        let (inside_bytes, duration) = (0, Duration::ZERO);
        self.rows.push(RecordedOperator {
            print,
            living_bytes,
            uses,
            made: Vec::new(),
            inside_bytes,
            duration,
        });
    }

    /// Ends the lives of storages that are gone: they died before the next operator.
    pub(crate) fn end_lives(&mut self, gone: impl Fn(u64) -> bool) {
        let at = self.rows.len();
        let (lives, living_bytes) = (&mut self.lives, &mut self.living_bytes);
        self.numbers.retain(|id, number| {
            let is_gone = gone(*id);
            *living_bytes -= if is_gone { lives[*number].bytes } else { 0 };
            lives[*number].death = is_gone.then_some(at);
            !is_gone
        });
    }

    fn number(&mut self, of: &UsedStorage, birth: Option<usize>) -> usize {
        let (lives, living_bytes) = (&mut self.lives, &mut self.living_bytes);
        *self.numbers.entry(of.id).or_insert_with(|| {
            *living_bytes += of.bytes;
            lives.push(Life { bytes: of.bytes, birth, death: None });
            lives.len() - 1
        })
    }

    pub(crate) fn ends(&mut self, made: &[UsedStorage], inside_bytes: u64, duration: Duration) {
        let Some(at) = self.rows.len().checked_sub(1) else { return };
        let made = made.iter().map(|one| self.number(one, Some(at))).collect();
        let row = &mut self.rows[at];
        (row.made, row.inside_bytes, row.duration) = (made, inside_bytes, duration);
    }

    /// Returns true if the first of the last `half` operators began with the fewest live bytes of them. The next
    /// operator repeats it, so few storages cross the ends of a step that is cut here.
    pub(crate) fn is_at_fewest_bytes(&self, half: usize) -> bool {
        let last = self.rows.len().checked_sub(half).map(|begin| &self.rows[begin..]);
        last.is_some_and(|last| last.iter().all(|row| last[0].living_bytes <= row.living_bytes))
    }

    /// Turns the last two repetitions of `half` operators into a step, and returns it with the live storages. Storages
    /// that the first repetition makes and that outlive it are the ones with which the next repetition begins.
    pub(crate) fn folded(&self, half: usize) -> Option<(KnownStep, Bound)> {
        let base = self.rows.len().checked_sub(2 * half)?;
        let (first, second) = self.rows[base..].split_at(half);
        if !first
            .iter()
            .zip(second)
            .all(|(one, other)| one.print == other.print && one.made.len() == other.made.len())
        {
            return None;
        }
        // Identifies storages of the second repetition with those of the first.
        let mut same: Vec<usize> = (0..self.lives.len()).collect();
        for (one, other) in first.iter().zip(second) {
            for (&one, &other) in one.made.iter().zip(&other.made) {
                if self.lives[one].bytes != self.lives[other].bytes {
                    return None;
                }
                same[other] = one;
            }
        }
        let since = |at: Option<usize>| at.and_then(|at| at.checked_sub(base));
        let lives = self.lives.iter().map(|life| Life {
            birth: since(life.birth),
            death: since(life.death),
            ..*life
        });
        let lives: Vec<_> = lives.collect();
        let (known, numbers) = Folded::new(half, &lives, &same).known(first, second)?;
        // If two storages alternate under one number, the later one keeps it.
        let mut living: Vec<_> = self.numbers.iter().map(|(id, life)| (*life, *id)).collect();
        living.sort_unstable();
        let bound = living.into_iter().filter_map(|(life, id)| Some((*numbers.get(&same[life])?, id)));
        Some((known, bound.collect()))
    }

    /// Turns the only repetition into a step, and returns it with the storages that are older and still live. Storages
    /// that it leaves behind count as gone at its end, because nothing takes their place in the first repetition.
    pub(crate) fn into_step(mut self) -> Option<(KnownStep, Bound)> {
        let end = self.rows.len();
        for life in self.lives.iter_mut().filter(|life| life.birth.is_some()) {
            life.death.get_or_insert(end);
        }
        let same: Vec<usize> = (0..self.lives.len()).collect();
        let mut folded = Folded::new(self.rows.len(), &self.lives, &same);
        let before = self.numbers.iter().filter(|(_, life)| self.lives[**life].birth.is_none());
        let found = before.map(|(id, life)| (folded.number(*life), *id)).collect();
        Some((folded.known(&self.rows, &self.rows)?.0, found))
    }
}

struct Folded<'a> {
    half: usize,
    lives: &'a [Life],
    same: &'a [usize],
    numbers: HashMap<usize, usize>,
    storages: Vec<Storage>,
}

impl<'a> Folded<'a> {
    fn new(half: usize, lives: &'a [Life], same: &'a [usize]) -> Self {
        Self { half, lives, same, numbers: HashMap::new(), storages: Vec::new() }
    }

    /// Builds the step: operators are those of `second`, the storages they make those of `first`.
    fn known(
        mut self,
        first: &[RecordedOperator],
        second: &[RecordedOperator],
    ) -> Option<(KnownStep, HashMap<usize, usize>)> {
        let operators = second.iter().map(|row| self.operator(row)).collect();
        let made = first.iter().map(|row| row.made.iter().map(|life| self.number(*life)).collect()).collect();
        let step = Step { operators, storages: self.storages };
        step.check().ok()?;
        let prints = first.iter().map(|row| row.print).collect();
        Some((KnownStep { timeline: Timeline::new(&step), step, prints, made, plan: None }, self.numbers))
    }

    fn number(&mut self, life: usize) -> usize {
        let life = self.same[life];
        if let Some(number) = self.numbers.get(&life) {
            return *number;
        }
        let Life { bytes, birth, death } = self.lives[life];
        let death = match (birth, death) {
            // It dies within its step, or in the next one before it is made anew.
            (Some(_), Some(death)) if death <= self.half => Some(death),
            (Some(birth), Some(death)) if death - self.half <= birth => Some(death - self.half),
            _ => None,
        };
        self.storages.push(Storage { bytes, birth, death, stays: false });
        self.numbers.insert(life, self.storages.len() - 1);
        self.storages.len() - 1
    }

    fn operator(&mut self, row: &RecordedOperator) -> Operator {
        let uses =
            row.uses.iter().map(|used| Use { storage: self.number(used.storage), writes: used.writes });
        Operator { uses: uses.collect(), inside_bytes: row.inside_bytes, duration: row.duration }
    }
}
