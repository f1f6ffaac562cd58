//! The step that a program repeats: noticed, recorded twice, and followed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use toma_plan::residency::{Next, Operator, Periods, Plan, Step, Storage, Timeline, Use};

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
    prints: Vec<u64>,
    /// The storages that each operator makes, in order.
    made: Vec<Vec<usize>>,
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
    /// An operator begins. Returns what it allocates beyond its start, where it is known.
    pub(crate) fn begins(&mut self, print: u64, found: &[Found], gone: impl Fn(u64) -> bool) -> u64 {
        let notices = self.is_wanted && !self.is_told;
        let period = if notices { self.periods.push(print) } else { None };
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

/// Two repetitions, of which the second tells what lives from one into the next.
#[derive(Debug)]
struct Recording {
    half: Option<usize>,
    rows: Vec<Row>,
    lives: Vec<Life>,
    /// Of those that live.
    numbers: HashMap<u64, usize>,
}

#[derive(Debug)]
struct Row {
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
    fn of(half: Option<usize>) -> Self {
        Self { half, rows: Vec::new(), lives: Vec::new(), numbers: HashMap::new() }
    }

    fn is_whole(&self) -> bool {
        self.half.is_some_and(|half| self.rows.len() == 2 * half)
    }

    fn begins(&mut self, print: u64, found: &[Found], gone: impl Fn(u64) -> bool) {
        let at = self.rows.len();
        let lives = &mut self.lives;
        self.numbers.retain(|id, number| {
            let is_gone = gone(*id);
            lives[*number].death = is_gone.then_some(at);
            !is_gone
        });
        let uses = found.iter().map(|one| Use { storage: self.number(one, None), writes: one.writes });
        let uses = uses.collect();
        self.rows.push(Row { print, uses, made: Vec::new(), inside_bytes: 0, duration: Duration::ZERO });
    }

    fn number(&mut self, of: &Found, birth: Option<usize>) -> usize {
        let lives = &mut self.lives;
        *self.numbers.entry(of.id).or_insert_with(|| {
            lives.push(Life { bytes: of.bytes, birth, death: None });
            lives.len() - 1
        })
    }

    fn ends(&mut self, made: &[Found], inside_bytes: u64, duration: Duration) {
        let Some(at) = self.rows.len().checked_sub(1) else { return };
        let made = made.iter().map(|one| self.number(one, Some(at))).collect();
        let row = &mut self.rows[at];
        (row.made, row.inside_bytes, row.duration) = (made, inside_bytes, duration);
    }

    /// The second repetition as a step: what is made in the first and lives on is what the next one begins with.
    fn folded(mut self) -> Option<Known> {
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
        let mut folded =
            Folded { half, lives: &self.lives, same: &same, numbers: HashMap::new(), storages: Vec::new() };
        let operators = second.iter().map(|row| folded.operator(row)).collect();
        let made =
            first.iter().map(|row| row.made.iter().map(|life| folded.number(*life)).collect()).collect();
        let step = Step { operators, storages: folded.storages };
        step.check().ok()?;
        let prints = self.rows.drain(..half).map(|row| row.print).collect();
        Some(Known { timeline: Timeline::new(&step), step, prints, made, plan: None })
    }
}

struct Folded<'a> {
    half: usize,
    lives: &'a [Life],
    same: &'a [usize],
    numbers: HashMap<usize, usize>,
    storages: Vec<Storage>,
}

impl Folded<'_> {
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

/// Where a thread is in a step that is known.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) known: Arc<Known>,
    /// The operator that comes next, or runs.
    at: usize,
    rounds: u64,
    /// The storages of the step, and their numbers in it.
    ids: Vec<Option<u64>>,
    numbers: HashMap<u64, usize>,
}

impl Following {
    fn of(known: Arc<Known>) -> Self {
        let ids = vec![None; known.step.storages.len()];
        Self { known, at: 0, rounds: 0, ids, numbers: HashMap::new() }
    }

    fn begins(&mut self, print: u64, found: &[Found]) -> Option<u64> {
        let known = Arc::clone(&self.known);
        let operator = &known.step.operators[self.at];
        if known.prints[self.at] != print || operator.uses.len() != found.len() {
            return None;
        }
        for (used, one) in operator.uses.iter().zip(found) {
            self.bind(used.storage, one.id);
        }
        Some(operator.inside_bytes)
    }

    fn bind(&mut self, number: usize, id: u64) {
        if self.ids[number] == Some(id) {
            return;
        }
        if let Some(before) = self.ids[number].replace(id) {
            self.numbers.remove(&before);
        }
        if let Some(before) = self.numbers.insert(id, number) {
            self.ids[before] = None;
        }
    }

    fn ends(&mut self, made: &[Found]) -> Ensuing {
        let known = Arc::clone(&self.known);
        for (number, one) in known.made[self.at].iter().zip(made) {
            self.bind(*number, one.id);
        }
        let leaves = self.planned(Plan::leaves_after);
        self.at += 1;
        let is_round = self.at == known.step.operators.len();
        if is_round {
            (self.at, self.rounds) = (0, self.rounds + 1);
        }
        Ensuing { known: None, leaves, is_round }
    }

    /// The number of the operator that runs, over all rounds.
    pub(crate) fn now(&self) -> u64 {
        self.rounds * self.known.step.operators.len() as u64 + self.at as u64
    }

    /// What a storage is in the step, and what happens to it next.
    pub(crate) fn seen(&self, id: u64) -> Option<(u64, Next)> {
        let number = *self.numbers.get(&id)?;
        Some((number as u64, self.known.timeline.next(number, self.now())))
    }

    /// What the plan lets leave after the operator that runs, or fetches when it begins.
    pub(crate) fn planned(&self, which: impl for<'a> Fn(&'a Plan, usize) -> &'a [usize]) -> Vec<u64> {
        let Some(plan) = &self.known.plan else { return Vec::new() };
        which(plan, self.at).iter().filter_map(|number| self.ids[*number]).collect()
    }

    pub(crate) fn number(&self, id: u64) -> Option<usize> {
        self.numbers.get(&id).copied()
    }
}

/// What stands for an operator: its name, and what it works on.
pub(crate) fn print_of(name: &str, found: &[Found]) -> u64 {
    // Names live as long as their library.
    let name = name.as_ptr().addr() as u64;
    let mixed = |sum: u64, number: u64| (sum.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    found.iter().fold(name, |sum, one| mixed(sum, one.bytes << 1 | u64::from(one.writes)))
}
