//! Cache of learned regions: their operators, the first operators of their stages, and the costs of the stages.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use toma_plan::checkpoint::{Action, Costs, Plan, Solver, TooSmall};

use super::measured::MeasuredRegion;
use crate::ffi::{BegunRegion, Region};

/// Most call sites in the cache; the one added first is removed first.
const MOST_REGIONS: usize = 1024;
/// Most structures of one call site, for example one for each batch size.
const MOST_STRUCTURES: usize = 32;
/// Most plans of one structure.
const MOST_PLANS: usize = 16;
/// Plans after which an excess is halved: as many as the successes after which the engine doubts a size.
const PLANS_OF_AN_EXCESS: u64 = 64;

/// Identity of a region: its name or its call site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RegionKey {
    Named(Box<str>),
    Line(&'static str, u32, u32),
}

/// Writes the name, or file, line and column.
impl fmt::Display for RegionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Line(file, line, column) => write!(f, "{file}:{line}:{column}"),
        }
    }
}

/// Budget in bytes and solver: the key of a cached plan.
type BudgetFor = (u64, Solver);

/// Costs and their plans.
#[derive(Debug)]
struct Priced {
    costs: Costs,
    // The search for the least takes longer than a small region runs.
    least_bytes: u64,
    keep_all_bytes: u64,
    /// Newest first.
    plans: Mutex<VecDeque<(BudgetFor, Arc<Plan>)>>,
}

impl Priced {
    fn of(costs: Costs) -> Self {
        let (least_bytes, keep_all_bytes) = (costs.least_bytes(), costs.keep_all_bytes());
        Self { costs, least_bytes, keep_all_bytes, plans: Mutex::default() }
    }

    fn plan(&self, key: BudgetFor) -> Result<Arc<Plan>, TooSmall> {
        let mut plans = locked(&self.plans);
        if let Some((_, plan)) = plans.iter().find(|(known, _)| *known == key) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(self.costs.plan(key.0, key.1)?);
        plans.truncate(MOST_PLANS - 1);
        plans.push_front((key, plan.clone()));
        Ok(plan)
    }
}

/// Operators of a region for certain shapes, and the costs of its stages.
#[derive(Debug)]
pub(super) struct Structure {
    pub(super) prints: Arc<[u64]>,
    pub(super) cuts: Arc<[u32]>,
    /// With the gradients that backward leaves in variables, if none has one yet.
    costs: Costs,
    /// The costs without these gradients, and with them.
    priced: [OnceLock<Priced>; 2],
    /// Bytes of the gradients of all variables, and of those that the costs count.
    gradient_bytes: [u64; 2],
    /// The region that has run last, whose variables are taken for those of the next one. They may be others than those
    /// of the measured region.
    last: Mutex<Arc<MeasuredRegion>>,
    /// Bytes by which budgets have been too large.
    excess_bytes: AtomicU64,
    /// Plans since `excess_bytes` was set or halved.
    planned: AtomicU64,
}

impl Structure {
    fn of(region: &Arc<MeasuredRegion>) -> Option<Self> {
        let costs = region.costs()?.ok()?;
        let cuts = region.stages().iter().skip(1).map(|stage| stage.first_op).collect();
        let prints = region.prints().into();
        let (excess_bytes, planned) = (AtomicU64::new(0), AtomicU64::new(0));
        Some(Self {
            prints,
            cuts,
            costs,
            priced: Default::default(),
            gradient_bytes: region.gradient_bytes(),
            last: Mutex::new(region.clone()),
            excess_bytes,
            planned,
        })
    }

    /// Notes that a region has run by a plan of this structure.
    pub(super) fn ran(&self, region: Arc<MeasuredRegion>) {
        *locked(&self.last) = region;
    }

    fn begins_with(&self, print: u64) -> bool {
        self.prints.first() == Some(&print)
    }

    /// Subtracts `budget_bytes - enough_bytes` from later budgets, because this budget was too large.
    pub(super) fn lean(&self, budget_bytes: u64, enough_bytes: u64) {
        self.excess_bytes.store(budget_bytes.saturating_sub(enough_bytes), Relaxed);
        self.planned.store(0, Relaxed);
    }

    /// Returns the bytes to subtract from a budget. Memory may become free again, so they are halved every few plans.
    fn excess_bytes(&self) -> u64 {
        let excess_bytes = self.excess_bytes.load(Relaxed);
        if excess_bytes > 0 && self.planned.fetch_add(1, Relaxed) + 1 >= PLANS_OF_AN_EXCESS {
            self.lean(excess_bytes / 2, 0);
        }
        excess_bytes
    }

    /// Returns the first operators of the stages that begin before `operator`.
    pub(super) fn cuts_before(&self, operator: usize) -> &[u32] {
        &self.cuts[..self.cuts.partition_point(|&cut| (cut as usize) < operator)]
    }

    /// Costs as they are now.
    pub(super) fn costs(&self) -> &Costs {
        &self.current().0.costs
    }

    /// Costs as they are now, and the bytes of gradients that variables do not have yet and that the costs do not count.
    fn current(&self) -> (&Priced, u64) {
        let ([all_bytes, counted_bytes], lacking_bytes) =
            (self.gradient_bytes, locked(&self.last).lacking_bytes());
        // Which gradients come when is known only if all do.
        let counts = lacking_bytes == all_bytes && counted_bytes > 0;
        let [without, with] = &self.priced;
        if counts {
            (with.get_or_init(|| Priced::of(self.costs.clone())), all_bytes - counted_bytes)
        } else {
            (without.get_or_init(|| Priced::of(self.costs.without_variable_gradients())), lacking_bytes)
        }
    }

    /// The least budget for which there is a plan now.
    pub(super) fn least_budget(&self) -> u64 {
        let (priced, uncounted_bytes) = self.current();
        priced.least_bytes.saturating_add(uncounted_bytes)
    }

    /// Bytes of gradients that variables do not have yet and that the costs do not count.
    pub(super) fn uncounted_bytes(&self) -> u64 {
        self.current().1
    }

    /// Returns a plan whose first actions are `done`, for a region whose first stages have run by another plan. Both
    /// `plan` and the leanest plan are continued from there; the faster one that fits wins, otherwise the leaner one.
    /// `None` if neither can be continued.
    pub(super) fn plan_after(
        &self,
        done: &[Action],
        plan: Arc<Plan>,
        budget_bytes: u64,
    ) -> Option<Arc<Plan>> {
        if plan.actions().starts_with(done) {
            return Some(plan);
        }
        let (Priced { costs, least_bytes, .. }, _) = self.current();
        let leanest = costs.plan(*least_bytes, Solver::Auto).ok();
        let both = [Some(&*plan), leanest.as_ref()].into_iter().flatten();
        let all = both.filter_map(|plan| plan.after(costs, done).ok());
        let order = |plan: &Plan| (plan.peak_bytes().max(budget_bytes), plan.seconds());
        let best = all.min_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(Ordering::Equal))?;
        Some(Arc::new(best))
    }

    /// Returns the fastest plan within a budget, from which gradients are subtracted that the costs do not count, and the
    /// bytes of the leanest plan.
    pub(super) fn plan(&self, budget_bytes: u64, solver: Solver) -> Result<(Arc<Plan>, u64), TooSmall> {
        // Plans are made for at most the bytes that keep everything, so larger budgets share one plan.
        let (priced, uncounted_bytes) = self.current();
        let usable_bytes = budget_bytes.saturating_sub(uncounted_bytes);
        // An earlier excess is no reason to refuse a plan that fits.
        let least_bytes = priced.least_bytes.min(usable_bytes);
        let leaner_bytes = usable_bytes.saturating_sub(self.excess_bytes()).max(least_bytes);
        // These solvers are no leaner with less, and a fixed number of checkpoints may need more than keeping
        // everything.
        let is_fixed = matches!(solver, Solver::KeepAll | Solver::SqrtN);
        let budget_bytes = if is_fixed { usable_bytes } else { leaner_bytes.min(priced.keep_all_bytes) };
        Ok((priced.plan((budget_bytes, solver))?, priced.least_bytes))
    }
}

#[derive(Debug, Default)]
struct CachedRegions {
    structures: VecDeque<Arc<Structure>>,
    /// Regions whose backward has not finished.
    learning: VecDeque<Arc<MeasuredRegion>>,
    /// Regions that matched no known structure, by the print of their first operator.
    differing: HashMap<u64, Differing>,
}

/// A region that matched no known structure. Later regions with the same first operator are measured until one of them
/// has taught it.
#[derive(Debug)]
struct Differing {
    prints: Vec<u64>,
    /// Regions that are still to be measured for it.
    tries: usize,
}

impl CachedRegions {
    /// Requests as many measurements as there may be structures with this first operator, since they may run in turn.
    fn must_learn(&mut self, prints: Vec<u64>) {
        let Some(&first) = prints.first() else { return };
        let alike = self.structures.iter().filter(|structure| structure.begins_with(first));
        let tries = alike.count() + 1;
        self.differing.insert(first, Differing { prints, tries });
    }

    /// Returns true if the next region with this first operator is to be measured, because one such is not known yet.
    fn must_measure(&mut self, print: u64) -> bool {
        let is_known = |prints: &[u64]| self.structures.iter().any(|known| *known.prints == *prints);
        let differing = self.differing.remove(&print).filter(|it| it.tries > 0 && !is_known(&it.prints));
        let Some(Differing { prints, tries }) = differing else { return false };
        self.differing.insert(print, Differing { prints, tries: tries - 1 });
        true
    }

    /// Makes structures of the regions whose backward has finished.
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
struct Cache {
    known: HashMap<RegionKey, CachedRegions>,
    order: VecDeque<RegionKey>,
}

fn cache() -> MutexGuard<'static, Cache> {
    static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);
    locked(&CACHE)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the structure for whose costs a plan was made, otherwise the first with as many stages. Costs are measured seconds,
/// which two structures hardly share.
fn for_plan<'a>(of: impl Iterator<Item = &'a Arc<Structure>>, plan: &Plan) -> Option<Arc<Structure>> {
    let is_other = |structure: &&Arc<Structure>| {
        structure.costs.keep_all_seconds().to_bits() != plan.keep_all_seconds().to_bits()
    };
    of.filter(|structure| structure.cuts.len() + 1 == plan.stages()).min_by_key(is_other).cloned()
}

/// Learns from the regions of this call site that have finished, then returns a structure whose first operator has this
/// print: the one that `plan` is for if there is any, otherwise the newest. `None` also if regions that begin so must be
/// measured first, because one differed from all structures.
pub(super) fn structure(key: &RegionKey, print: u64, plan: Option<&Plan>) -> Option<Arc<Structure>> {
    let mut cache = cache();
    let known = cache.known.get_mut(key)?;
    known.learn();
    if known.must_measure(print) {
        return None;
    }
    let begin_so = || known.structures.iter().filter(|structure| structure.begins_with(print));
    plan.and_then(|plan| for_plan(begin_so(), plan)).or_else(|| begin_so().next().cloned())
}

/// Returns another known structure with the operators and stages that the region has run so far. Called when a region
/// that was planned as `other` deviates from it.
pub(super) fn continuation(
    key: &RegionKey,
    other: &Structure,
    begun: BegunRegion<'_>,
) -> Option<Arc<Structure>> {
    let cache = cache();
    let operators = begun.operators();
    let is_it = |structure: &&Arc<Structure>| {
        structure.prints.starts_with(begun.prints)
            && (structure.prints.len() == operators || !begun.is_whole)
            && structure.cuts_before(operators) == other.cuts_before(operators)
    };
    cache.known.get(key)?.structures.iter().find(is_it).cloned()
}

/// Returns the structure of any call site with this first operator that a plan made elsewhere is for.
pub(super) fn elsewhere(print: u64, plan: &Plan) -> Option<Arc<Structure>> {
    let mut cache = cache();
    cache.known.values_mut().for_each(CachedRegions::learn);
    let all = cache.known.values().flat_map(|known| &known.structures);
    for_plan(all.filter(|structure| structure.begins_with(print)), plan)
}

/// Records that a region differed from the structure that it was planned as. If its own structure is known, that one is
/// tried first from now on; otherwise the next such region is measured.
pub(super) fn differed(key: &RegionKey, region: &Region) {
    let prints = region.prints();
    let mut cache = cache();
    let Some(known) = cache.known.get_mut(key) else { return };
    let found = known.structures.iter().position(|structure| *structure.prints == *prints);
    match found.and_then(|at| known.structures.remove(at)) {
        Some(structure) => known.structures.push_front(structure),
        None => known.must_learn(prints),
    }
}

/// Returns the newest structure of a region.
pub(super) fn newest(key: &RegionKey) -> Option<Arc<Structure>> {
    let mut cache = cache();
    let known = cache.known.get_mut(key)?;
    known.learn();
    known.structures.front().cloned()
}

/// Learns the costs of a region once its backward has run.
pub(super) fn learn(key: &RegionKey, region: Arc<MeasuredRegion>) {
    let mut cache = cache();
    if !cache.known.contains_key(key) {
        cache.order.push_back(key.clone());
        if cache.order.len() > MOST_REGIONS {
            let oldest = cache.order.pop_front();
            oldest.and_then(|oldest| cache.known.remove(&oldest));
        }
    }
    let known = cache.known.entry(key.clone()).or_default();
    known.learn();
    known.learning.truncate(MOST_STRUCTURES - 1);
    known.learning.push_front(region);
}
