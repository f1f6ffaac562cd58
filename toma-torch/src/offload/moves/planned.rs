//! Plans of a known step, and how they are carried out.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use toma_plan::residency::{Plan, Step, Terms};

use super::counts::add;
use super::state::ManagerState;
use super::table::Location;
use crate::offload::step::known_step::{KnownStep, LearnedStep};

/// How often late fetches cause a new plan. Each plan assumes that the links are slower by the factor `SLOWER`.
const MOST_ADAPTIONS: u64 = 4;
const SLOWER: f64 = 0.8;

/// Assumed speed of a link before the first copy.
const BYTES_PER_SECOND: f64 = 4e9;

/// The step that the program repeats, as far as it is known, and its plan.
///
/// ```
/// use toma_torch::{Device, offload::Manager};
///
/// let manager = Manager::new(&Device::new(tch::Device::Cpu));
/// // ... steps of training ...
/// match manager.plan().plan() {
///     Some(plan) => println!("{plan}"),
///     None => println!("no step is known yet, or it fits"),
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Planned {
    shared: Arc<ManagerState>,
    known: Option<Arc<KnownStep>>,
}

impl Planned {
    pub(crate) fn of(shared: &Arc<ManagerState>) -> Self {
        let known = shared.table().steps.known().cloned();
        Self { shared: Arc::clone(shared), known }
    }

    /// Returns the step, once it has been predicted, or repeated often enough to be detected and recorded.
    pub fn step(&self) -> Option<&Step> {
        self.known.as_deref().map(|known| &known.step)
    }

    /// Returns the plan of the step, if the step needs one and the eviction policy makes plans.
    pub fn plan(&self) -> Option<&Plan> {
        self.known.as_deref()?.plan.as_ref()
    }

    /// Returns the bytes that a plan or simulation may use: the budget less the bytes that the manager does not move.
    pub fn terms(&self) -> Terms {
        self.shared.terms()
    }

    /// Describes the plan for a tensor that was adopted under a name.
    pub fn explain(&self, name: &str) -> String {
        let number = {
            let table = self.shared.table();
            let named = table.entries.iter().find(|(_, entry)| entry.name.as_deref() == Some(name));
            let Some((id, _)) = named else {
                return format!("{name}: no tensor was adopted under this name");
            };
            table.steps.following().and_then(|following| following.number(*id))
        };
        let explained = number.zip(self.plan()).map(|(number, plan)| plan.explain(number));
        format!("{name}: {}", explained.unwrap_or_else(|| "in no step that is planned".to_owned()))
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.step(), self.plan()) {
            (_, Some(plan)) => plan.fmt(f),
            (Some(step), None) => write!(f, "a step of {} operators, on demand", step.operators.len()),
            (None, None) => f.write_str("no step is known"),
        }
    }
}

impl ManagerState {
    /// Starts the fetches that the plan has for the operator that begins.
    pub(crate) fn fetch_ahead(self: &Arc<Self>) {
        let ids = {
            let table = self.table();
            let is_evicted =
                |id: &u64| table.entries.get(id).is_some_and(|entry| entry.location != Location::Resident);
            let following = table.steps.following().filter(|following| following.known.plan.is_some());
            let mut ids = following.map(|following| following.planned(Plan::fetches_at)).unwrap_or_default();
            ids.retain(is_evicted);
            ids
        };
        for id in ids {
            self.inwards.push(self, id);
        }
    }

    pub(crate) fn evict_by_plan(self: &Arc<Self>, ids: Vec<u64>) {
        if self.is_patient.load(Ordering::Relaxed) {
            return;
        }
        for id in ids {
            self.outwards.push(self, id);
        }
    }

    /// Plans a recorded step, and follows it from the next operator on.
    pub(crate) fn learn(&self, (mut known, bound): LearnedStep) {
        known.plan = self.plan_of(&known, false);
        self.table().steps.follow(Arc::new(known), &bound);
    }

    /// Plans a predicted step, and follows it from its first operator on.
    pub(crate) fn learn_predicted(&self, mut known: KnownStep, found: &[(usize, u64)]) {
        known.plan = self.plan_of(&known, true);
        self.table().steps.predict(Arc::new(known), found);
    }

    /// Plans the known step again, for the current budget and links.
    pub(crate) fn replan(&self) {
        let (known, is_predicted) = {
            let table = self.table();
            (table.steps.known().cloned(), table.steps.is_predicted())
        };
        let Some(before) = known else { return };
        let mut known = (*before).clone();
        known.plan = self.plan_of(&before, is_predicted);
        self.table().steps.replan(&before, Arc::new(known));
    }

    fn plan_of(&self, known: &KnownStep, is_predicted: bool) -> Option<Plan> {
        if self.limit_bytes() == u64::MAX {
            return None;
        }
        let terms = self.terms();
        if known.step.peak_bytes() <= terms.budget_bytes {
            return None;
        }
        let plan = |terms: &Terms| {
            let plan = self.with_eviction(|eviction| eviction.plan(&known.step, terms)).flatten();
            plan.filter(|plan| plan.is_of(&known.step))
        };
        if self.device.device() != tch::Device::Cpu {
            return plan(&terms);
        }
        // On a CPU copies and operators share the memory's bandwidth, so a plan that copies less is faster, and one that
        // copies early is not.
        let leanest = plan(&Terms::bytes_alone(terms.budget_bytes));
        // Evictions on demand may copy less by alternating over several steps. A predicted step may not come that
        // often, so it gets a plan even if that copies more.
        if is_predicted { leanest.or_else(|| plan(&terms)) } else { leanest }
    }

    /// Returns the current budget and link speeds.
    fn terms(&self) -> Terms {
        let there = {
            let table = self.table();
            let entries = table
                .entries
                .values()
                .filter(|entry| entry.location != Location::Evicted && !entry.storage.is_gone());
            entries.map(|entry| entry.bytes).sum()
        };
        // Bytes that are not the manager's, or are never evicted.
        let unmanaged_bytes = self.allocated_bytes().saturating_sub(there);
        let counts = &self.counts;
        let slower = SLOWER.powi(i32::try_from(counts.adaptions.load(Ordering::Relaxed)).unwrap_or(0));
        Terms {
            budget_bytes: self.limit_bytes().saturating_sub(unmanaged_bytes),
            in_bytes_per_second: slower * counts.in_speed().unwrap_or(BYTES_PER_SECOND),
            out_bytes_per_second: slower * counts.out_speed().unwrap_or(BYTES_PER_SECOND),
        }
    }

    /// Plans earlier fetches for the next repetition if fetches were late in this one.
    pub(crate) fn adapt(&self) {
        let late = self.counts.late.swap(0, Ordering::Relaxed);
        if late > 0 && self.counts.adaptions.load(Ordering::Relaxed) < MOST_ADAPTIONS {
            add(&self.counts.adaptions, 1);
            self.replan();
        }
    }

    /// Called when the program marks the beginning of a step.
    pub(crate) fn step_begins(&self) {
        let learned = self.table().steps.step_begins();
        if let Some(learned) = learned {
            self.learn(learned);
        }
    }
}
