//! What is known of regions: their operators, where stages begin, and what those take.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use toma_plan::checkpoint::{Action, Costs, Plan, Solver, TooSmall};

use super::measured;
use crate::ffi::{Begun, Region};

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

    /// The first operators of stages that begin before one.
    pub(super) fn cuts_before(&self, operator: usize) -> &[u32] {
        &self.cuts[..self.cuts.partition_point(|&cut| (cut as usize) < operator)]
    }

    /// Of gradients that its variables do not have now.
    pub(super) fn lacking_bytes(&self) -> u64 {
        self.region.lacking_bytes()
    }

    /// A plan for stages the first of which have run by another one: of what a plan and the leanest come to then the
    /// fastest that fits, or the leaner one. `None` where no plan begins so.
    pub(super) fn plan_after(
        &self,
        done: &[Action],
        plan: Arc<Plan>,
        budget_bytes: u64,
    ) -> Option<Arc<Plan>> {
        if plan.actions().starts_with(done) {
            return Some(plan);
        }
        let leanest = self.costs.plan(self.least_bytes, Solver::Auto).ok();
        let both = [Some(&*plan), leanest.as_ref()].into_iter().flatten();
        let all = both.filter_map(|plan| plan.after(&self.costs, done).ok());
        let order = |plan: &Plan| (plan.peak_bytes().max(budget_bytes), plan.seconds());
        let best = all.min_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(Ordering::Equal))?;
        Some(Arc::new(best))
    }

    /// The fastest plan within a budget, from which the first gradients of variables are taken: of all variables at
    /// once, because the order of backward is unknown before it has run.
    pub(super) fn plan(&self, budget_bytes: u64, solver: Solver) -> Result<Arc<Plan>, TooSmall> {
        // No more than keeping all, so that budgets that make no difference share a plan.
        let usable_bytes = budget_bytes.saturating_sub(self.lacking_bytes());
        // What was too much once is no reason to give up what fits.
        let least_bytes = self.least_bytes.min(usable_bytes);
        let leaner_bytes = usable_bytes.saturating_sub(self.excess_bytes()).max(least_bytes);
        // These are no leaner in less, and a fixed count may need more than to keep all.
        let is_fixed = matches!(solver, Solver::KeepAll | Solver::SqrtN);
        let budget_bytes = if is_fixed { usable_bytes } else { leaner_bytes.min(self.keep_all_bytes) };
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
    /// Regions that were not what was known, by their first operator.
    differing: HashMap<u64, Differing>,
}

/// A region that was not what was known. The next ones that begin like it are measured until it is among them.
#[derive(Debug)]
struct Differing {
    prints: Vec<u64>,
    /// How many more of them are measured for it.
    tries: usize,
}

impl Known {
    /// As many regions are measured as may begin so, in turn.
    fn must_learn(&mut self, prints: Vec<u64>) {
        let Some(&first) = prints.first() else { return };
        let alike = self.structures.iter().filter(|structure| structure.prints.first() == Some(&first));
        let tries = alike.count() + 1;
        self.differing.insert(first, Differing { prints, tries });
    }

    /// Whether the next region that begins so is measured, because one that does is not known yet.
    fn must_measure(&mut self, print: u64) -> bool {
        let is_known = |prints: &[u64]| self.structures.iter().any(|known| *known.prints == *prints);
        let differing = self.differing.remove(&print).filter(|it| it.tries > 0 && !is_known(&it.prints));
        let Some(Differing { prints, tries }) = differing else { return false };
        self.differing.insert(print, Differing { prints, tries: tries - 1 });
        true
    }

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

/// What is known of the region here whose first operator has this print; of several the newest, or that which a plan of
/// so many stages is for.
pub(super) fn structure(place: &Place, print: u64, stages: Option<usize>) -> Option<Arc<Structure>> {
    let mut places = places();
    let known = places.known.get_mut(place)?;
    known.learn();
    if known.must_measure(print) {
        return None;
    }
    let begin_so = || known.structures.iter().filter(|structure| structure.prints.first() == Some(&print));
    let for_plan =
        begin_so().find(|structure| stages.is_some_and(|stages| structure.cuts.len() + 1 == stages));
    for_plan.or_else(|| begin_so().next()).cloned()
}

/// What is known of a region here that was taken for another one, and has the same stages so far.
pub(super) fn going_on(place: &Place, other: &Structure, begun: Begun<'_>) -> Option<Arc<Structure>> {
    let places = places();
    let operators = begun.operators();
    let is_it = |structure: &&Arc<Structure>| {
        structure.prints.starts_with(begun.prints)
            && (structure.prints.len() == operators || !begun.is_whole)
            && structure.cuts_before(operators) == other.cuts_before(operators)
    };
    places.known.get(place)?.structures.iter().find(is_it).cloned()
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
/// there is none it is measured when it comes again.
pub(super) fn differed(place: &Place, region: &Region) {
    let prints = region.prints();
    let mut places = places();
    let Some(known) = places.known.get_mut(place) else { return };
    let found = known.structures.iter().position(|structure| *structure.prints == *prints);
    match found.and_then(|at| known.structures.remove(at)) {
        Some(structure) => known.structures.push_front(structure),
        None => known.must_learn(prints),
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
