//! A step that is recorded over two repetitions.

use std::collections::HashMap;
use std::time::Duration;

use toma_plan::residency::{Operator, Step, Storage, Timeline, Use};

use super::steps::{Found, Known};

/// Two repetitions, of which the second tells what lives from one into the next.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) half: Option<usize>,
    pub(crate) rows: Vec<Row>,
    lives: Vec<Life>,
    /// Of those that live.
    numbers: HashMap<u64, usize>,
}

#[derive(Debug)]
pub(crate) struct Row {
    print: u64,
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

impl Recording {
    pub(crate) fn of(half: Option<usize>) -> Self {
        Self { half, rows: Vec::new(), lives: Vec::new(), numbers: HashMap::new() }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.half.is_some_and(|half| self.rows.len() == 2 * half)
    }

    pub(crate) fn begins(&mut self, print: u64, found: &[Found], gone: impl Fn(u64) -> bool) {
        self.buries(gone);
        let uses = found.iter().map(|one| Use { storage: self.number(one, None), writes: one.writes });
        let uses = uses.collect();
        self.rows.push(Row { print, uses, made: Vec::new(), inside_bytes: 0, duration: Duration::ZERO });
    }

    /// What is gone died before the next operator.
    pub(crate) fn buries(&mut self, gone: impl Fn(u64) -> bool) {
        let at = self.rows.len();
        let lives = &mut self.lives;
        self.numbers.retain(|id, number| {
            let is_gone = gone(*id);
            lives[*number].death = is_gone.then_some(at);
            !is_gone
        });
    }

    fn number(&mut self, of: &Found, birth: Option<usize>) -> usize {
        let lives = &mut self.lives;
        *self.numbers.entry(of.id).or_insert_with(|| {
            lives.push(Life { bytes: of.bytes, birth, death: None });
            lives.len() - 1
        })
    }

    pub(crate) fn ends(&mut self, made: &[Found], inside_bytes: u64, duration: Duration) {
        let Some(at) = self.rows.len().checked_sub(1) else { return };
        let made = made.iter().map(|one| self.number(one, Some(at))).collect();
        let row = &mut self.rows[at];
        (row.made, row.inside_bytes, row.duration) = (made, inside_bytes, duration);
    }

    /// The second repetition as a step: what is made in the first and lives on is what the next one begins with.
    pub(crate) fn folded(self) -> Option<Known> {
        let half = self.half?;
        let (first, second) = self.rows.split_at(half);
        if !first
            .iter()
            .zip(second)
            .all(|(one, other)| one.print == other.print && one.made.len() == other.made.len())
        {
            return None;
        }
        // The one of the second repetition is the one of the first.
        let mut same: Vec<usize> = (0..self.lives.len()).collect();
        for (one, other) in first.iter().zip(second) {
            for (&one, &other) in one.made.iter().zip(&other.made) {
                if self.lives[one].bytes != self.lives[other].bytes {
                    return None;
                }
                same[other] = one;
            }
        }
        Folded::new(half, &self.lives, &same).known(first, second)
    }

    /// The only repetition as a step, and the storages that were there before it and still are, by their numbers in it.
    /// What it leaves behind is gone at its end: nothing takes its place in the first one.
    pub(crate) fn alone(mut self) -> Option<(Known, Vec<(usize, u64)>)> {
        let end = self.rows.len();
        for life in self.lives.iter_mut().filter(|life| life.birth.is_some()) {
            life.death.get_or_insert(end);
        }
        let same: Vec<usize> = (0..self.lives.len()).collect();
        let mut folded = Folded::new(self.rows.len(), &self.lives, &same);
        let before = self.numbers.iter().filter(|(_, life)| self.lives[**life].birth.is_none());
        let found = before.map(|(id, life)| (folded.number(*life), *id)).collect();
        Some((folded.known(&self.rows, &self.rows)?, found))
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

    /// With what the first repetition makes.
    fn known(mut self, first: &[Row], second: &[Row]) -> Option<Known> {
        let operators = second.iter().map(|row| self.operator(row)).collect();
        let made = first.iter().map(|row| row.made.iter().map(|life| self.number(*life)).collect()).collect();
        let step = Step { operators, storages: self.storages };
        step.check().ok()?;
        let prints = first.iter().map(|row| row.print).collect();
        Some(Known { timeline: Timeline::new(&step), step, prints, made, plan: None })
    }

    fn number(&mut self, life: usize) -> usize {
        let life = self.same[life];
        if let Some(number) = self.numbers.get(&life) {
            return *number;
        }
        let Life { bytes, birth, death } = self.lives[life];
        let death = match (birth, death) {
            // Within its step, or in the next one before it is made anew.
            (Some(_), Some(death)) if death <= self.half => Some(death),
            (Some(birth), Some(death)) if death - self.half <= birth => Some(death - self.half),
            _ => None,
        };
        self.storages.push(Storage { bytes, birth, death, stays: false });
        self.numbers.insert(life, self.storages.len() - 1);
        self.storages.len() - 1
    }

    fn operator(&mut self, row: &Row) -> Operator {
        let uses =
            row.uses.iter().map(|used| Use { storage: self.number(used.storage), writes: used.writes });
        Operator { uses: uses.collect(), inside_bytes: row.inside_bytes, duration: row.duration }
    }
}
