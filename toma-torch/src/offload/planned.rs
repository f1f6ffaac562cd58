//! What is done with a step that is known.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use toma_plan::residency::{Plan, Terms};

use super::shared::{Shared, add};
use super::steps::Known;
use super::table::Place;

/// How often late fetches let a step be planned anew, each time for a link that is so much slower.
const MOST_ADAPTIONS: u64 = 4;
const SLOWER: f64 = 0.8;

/// Of a link that nothing has gone over yet.
const BYTES_PER_SECOND: f64 = 4e9;

impl Shared {
    /// Lets operators find their arguments as the plan says.
    pub(crate) fn fetch_ahead(self: &Arc<Self>) {
        let ids = {
            let table = self.table();
            let is_away =
                |id: &u64| table.entries.get(id).is_some_and(|entry| entry.place != Place::Resident);
            let following = table.steps.following().filter(|following| following.known.plan.is_some());
            let mut ids = following.map(|following| following.planned(Plan::fetches_at)).unwrap_or_default();
            ids.retain(is_away);
            ids
        };
        for id in ids {
            self.inwards.push(self, id);
        }
    }

    pub(crate) fn leave_by_plan(self: &Arc<Self>, ids: Vec<u64>) {
        for id in ids {
            self.outwards.push(self, id);
        }
    }

    /// A step is known: it is planned, and followed from the next operator on.
    pub(crate) fn learn(&self, mut known: Known) {
        known.plan = self.plan_of(&known);
        self.table().steps.follow(Arc::new(known));
    }

    /// The plan for the budget and the links as they are.
    pub(crate) fn replan(&self) {
        let Some(known) = self.table().steps.known().cloned() else { return };
        let plan = self.plan_of(&known);
        let mut known = (*known).clone();
        known.plan = plan;
        self.table().steps.replan(Arc::new(known));
    }

    fn plan_of(&self, known: &Known) -> Option<Plan> {
        let limit = self.limit_bytes();
        if limit == u64::MAX {
            return None;
        }
        let there = {
            let table = self.table();
            let entries =
                table.entries.values().filter(|entry| entry.place != Place::Away && !entry.storage.is_gone());
            entries.map(|entry| entry.bytes).sum()
        };
        // What is not ours, or never leaves.
        let besides = self.allocated_bytes().saturating_sub(there);
        let counts = &self.counts;
        let slower = SLOWER.powi(i32::try_from(counts.adaptions.load(Ordering::Relaxed)).unwrap_or(0));
        let terms = Terms {
            budget_bytes: limit.saturating_sub(besides),
            in_bytes_per_second: slower * counts.in_speed().unwrap_or(BYTES_PER_SECOND),
            out_bytes_per_second: slower * counts.out_speed().unwrap_or(BYTES_PER_SECOND),
        };
        self.asked(|eviction| eviction.plan(&known.step, &terms)).flatten()
    }

    /// After a repetition: fetches that came too late start earlier in the next.
    pub(crate) fn adapt(&self) {
        let late = self.counts.late.swap(0, Ordering::Relaxed);
        if late > 0 && self.counts.adaptions.load(Ordering::Relaxed) < MOST_ADAPTIONS {
            add(&self.counts.adaptions, 1);
            self.replan();
        }
    }

    /// The program says that a step begins.
    pub(crate) fn step_begins(&self) {
        let known = self.table().steps.step_begins();
        if let Some(known) = known {
            self.learn(*known);
        }
    }
}
