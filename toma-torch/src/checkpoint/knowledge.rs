//! What is known of regions: their operators, where stages begin, and what those take.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use toma_plan::checkpoint::{Costs, Plan, Solver, TooSmall};

use super::measured;
use crate::ffi::Region;

/// Places that are remembered; the one that was learned longest ago goes first.
const MOST_PLACES: usize = 1024;
/// Structures of one place, such as the sizes of its batches.
const MOST_STRUCTURES: usize = 32;
/// Plans of one structure.
const MOST_PLANS: usize = 16;
/// As many as successes after which the engine doubts a size.
const PLANS_OF_AN_EXCESS: u64 = 64;

/// A region in the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Named(Box<str>),
    Line(&'static str, u32, u32),
}

/// The name, or the line.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Line(file, line, column) => write!(f, "{file}:{line}:{column}"),
        }
    }
}

/// What a plan is asked for.
type BudgetFor = (u64, Solver);

/// The operators of a region for some shapes, and what its stages take.
#[derive(Debug)]
pub(super) struct Structure {
    pub(super) prints: Arc<[u64]>,
    pub(super) cuts: Arc<[u32]>,
    pub(super) costs: Costs,
    pub(super) least_bytes: u64,
    keep_all_bytes: u64,
    region: Arc<Region>,
    /// By budget and solver.
    plans: Mutex<VecDeque<(BudgetFor, Arc<Plan>)>>,
    /// By how much budgets have been too large.
    excess_bytes: AtomicU64,
    /// Plans since that was last halved.
    planned: AtomicU64,
}

impl Structure {
    fn of(region: &Arc<Region>) -> Option<Self> {
        let costs = measured::costs_of(region)?.ok()?;
        let cuts = region.stages().iter().skip(1).map(|stage| stage.first_op).collect();
        let prints = region.prints().into();
        // To find the least takes longer than a small region does.
        let (least_bytes, keep_all_bytes) = (costs.least_bytes(), costs.keep_all_bytes());
        let (excess_bytes, planned) = (AtomicU64::new(0), AtomicU64::new(0));
        Some(Self {
            prints,
            cuts,
            costs,
            least_bytes,
            keep_all_bytes,
            region: region.clone(),
            plans: Mutex::default(),
            excess_bytes,
            planned,
        })
    }

    /// A budget was too large: from now on so much less is taken of budgets.
    pub(super) fn lean(&self, budget_bytes: u64, enough_bytes: u64) {
        self.excess_bytes.store(budget_bytes.saturating_sub(enough_bytes), Relaxed);
        self.planned.store(0, Relaxed);
    }

    /// What there is too little of may come back, so an excess is halved after some plans.
    fn excess_bytes(&self) -> u64 {
        let excess_bytes = self.excess_bytes.load(Relaxed);
        if excess_bytes > 0 && self.planned.fetch_add(1, Relaxed) + 1 >= PLANS_OF_AN_EXCESS {
            self.lean(excess_bytes / 2, 0);
        }
        excess_bytes
    }

    /// The fastest plan within a budget, which gradients that variables lack so far take from.
    pub(super) fn plan(&self, budget_bytes: u64, solver: Solver) -> Result<Arc<Plan>, TooSmall> {
        // No more than keeping all, so that budgets that make no difference share a plan.
        let usable_bytes = budget_bytes.saturating_sub(self.region.lacking_bytes());
        // What was too much once is no reason to give up what fits.
        let least_bytes = self.least_bytes.min(usable_bytes);
        let leaner_bytes = usable_bytes.saturating_sub(self.excess_bytes()).max(least_bytes);
        // The partition of a fixed count may need more than to keep all.
        let is_fixed = solver == Solver::SqrtN;
        let budget_bytes = if is_fixed { leaner_bytes } else { leaner_bytes.min(self.keep_all_bytes) };
        let mut plans = locked(&self.plans);
        if let Some((_, plan)) = plans.iter().find(|(key, _)| *key == (budget_bytes, solver)) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(self.costs.plan(budget_bytes, solver)?);
        plans.truncate(MOST_PLANS - 1);
        plans.push_front(((budget_bytes, solver), plan.clone()));
        Ok(plan)
    }
}

#[derive(Debug, Default)]
struct Known {
    structures: VecDeque<Arc<Structure>>,
    /// Regions whose backward has not run whole yet.
    learning: VecDeque<Arc<Region>>,
    /// First operators of regions that were not what was known: the next one is measured.
    differing: HashSet<u64>,
}

impl Known {
    /// Takes over what regions have measured since.
    fn learn(&mut self) {
        let (over, open): (VecDeque<_>, _) =
            self.learning.drain(..).partition(|region| region.figures().is_over);
        self.learning = open;
        for structure in over.iter().filter_map(Structure::of) {
            self.structures.retain(|known| known.prints != structure.prints);
            self.structures.truncate(MOST_STRUCTURES - 1);
            self.structures.push_front(Arc::new(structure));
        }
    }
}

#[derive(Debug, Default)]
struct Places {
    known: HashMap<Place, Known>,
    order: VecDeque<Place>,
}

fn places() -> MutexGuard<'static, Places> {
    static PLACES: LazyLock<Mutex<Places>> = LazyLock::new(Mutex::default);
    locked(&PLACES)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of the region here whose first operator has this print.
pub(super) fn structure(place: &Place, print: u64) -> Option<Arc<Structure>> {
    let mut places = places();
    let known = places.known.get_mut(place)?;
    known.learn();
    if known.differing.remove(&print) {
        return None;
    }
    known.structures.iter().find(|structure| structure.prints.first() == Some(&print)).cloned()
}

/// A structure that begins so and has so many stages, of whatever place: what a plan of costs measured elsewhere is for.
pub(super) fn elsewhere(print: u64, stages: usize) -> Option<Arc<Structure>> {
    let mut places = places();
    let is_it = |structure: &&Arc<Structure>| {
        structure.prints.first() == Some(&print) && structure.cuts.len() + 1 == stages
    };
    places.known.values_mut().find_map(|known| {
        known.learn();
        known.structures.iter().find(is_it).cloned()
    })
}

/// A region was not what was known: of those that begin like it the one that it was comes first from now on, and where
/// there is none the next one is measured.
pub(super) fn differed(place: &Place, region: &Region) {
    let prints = region.prints();
    let mut places = places();
    let Some(known) = places.known.get_mut(place) else { return };
    let found = known.structures.iter().position(|structure| *structure.prints == *prints);
    match found.and_then(|at| known.structures.remove(at)) {
        Some(structure) => known.structures.push_front(structure),
        None => known.differing.extend(prints.first()),
    }
}

/// The newest structure of a place.
pub(super) fn newest(place: &Place) -> Option<Arc<Structure>> {
    let mut places = places();
    let known = places.known.get_mut(place)?;
    known.learn();
    known.structures.front().cloned()
}

/// Measures what a region takes, once its backward has run.
pub(super) fn learn(place: &Place, region: Arc<Region>) {
    let mut places = places();
    if !places.known.contains_key(place) {
        places.order.push_back(place.clone());
        if places.order.len() > MOST_PLACES {
            let oldest = places.order.pop_front();
            oldest.and_then(|oldest| places.known.remove(&oldest));
        }
    }
    let known = places.known.entry(place.clone()).or_default();
    known.learn();
    known.learning.truncate(MOST_STRUCTURES - 1);
    known.learning.push_front(region);
}
