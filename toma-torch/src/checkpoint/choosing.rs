//! Choice of a region's plan: before its first operator, and again when it differs from the known structure.

use std::sync::Arc;

use toma_core::leaner;
use toma_plan::checkpoint::Plan;
use toma_plan::checkpoint::recording::Step;

use super::With;
use super::budget::RegionBudget;
use super::leaner::Leaner;
use super::learned::{self, RegionKey, Structure};
use super::running::RunningRegion;
use crate::error::{Error, ErrorKind};
use crate::ffi::{BegunRegion, Chosen};
use crate::memory::Device;

/// Chooses the plans of one region.
#[derive(Debug)]
pub(super) struct Choosing<'a> {
    form: &'a With<'a>,
    key: &'a RegionKey,
    running: &'a RunningRegion,
    /// The known structure that this run matches so far, and its byte budget.
    taken: Option<(Arc<Structure>, RegionBudget)>,
}

impl<'a> Choosing<'a> {
    pub(super) fn new(form: &'a With<'a>, key: &'a RegionKey, running: &'a RunningRegion) -> Self {
        Self { form, key, running, taken: None }
    }

    pub(super) fn choose(&mut self, begun: BegunRegion<'_>) -> Result<Chosen, Error> {
        match self.taken.take() {
            None => self.first(begun),
            Some((other, budget)) => self.further(&other, budget, begun),
        }
    }

    /// Returns the structure by which the region has run.
    pub(super) fn structure(&self) -> Option<Arc<Structure>> {
        self.taken.as_ref().map(|(structure, _)| structure.clone())
    }

    fn first(&mut self, begun: BegunRegion<'_>) -> Result<Chosen, Error> {
        let print = begun.prints[0];
        let elsewhere = || learned::elsewhere(print, self.form.plan?);
        let Some(known) = learned::structure(self.key, print, self.form.plan).or_else(elsewhere) else {
            return Ok(Chosen::default());
        };
        let budget = RegionBudget::of(self.form, Device::new(begun.device.device()));
        let plan = match self.form.plan {
            Some(plan) => self.given(plan, &known)?,
            None => self.plan(&known, &budget)?,
        };
        Ok(self.take(known, budget, plan))
    }

    /// Continues as another known structure, unless the user gave the plan.
    fn further(
        &mut self,
        other: &Structure,
        budget: RegionBudget,
        begun: BegunRegion<'_>,
    ) -> Result<Chosen, Error> {
        let (None, Some(now)) = (self.form.plan, self.running.plan()) else { return Ok(Chosen::default()) };
        let Some(known) = learned::continuation(self.key, other, begun) else {
            return Ok(Chosen::default());
        };
        let done = &now.actions()[..=other.cuts_before(begun.operators()).len()];
        let plan = self.plan(&known, &budget)?;
        let Some(plan) = known.plan_after(done, plan, budget.bytes()) else { return Ok(Chosen::default()) };
        Ok(self.take(known, budget, plan))
    }

    fn given(&self, plan: &Plan, known: &Structure) -> Result<Arc<Plan>, Error> {
        let (key, stages) = (self.key, known.cuts.len() + 1);
        if plan.stages() == stages {
            return Ok(Arc::new(plan.clone()));
        }
        let text = format!("checkpoint {key}: a plan of {} stages for a region of {stages}", plan.stages());
        Err(Error::new(ErrorKind::Other, text))
    }

    /// Returns the fastest plan that fits, and offers the engine a leaner one.
    fn plan(&self, known: &Arc<Structure>, budget: &RegionBudget) -> Result<Arc<Plan>, Error> {
        let plan = known.plan(budget.bytes(), self.form.solver);
        let plan = plan.or_else(|_| known.plan(budget.all_bytes(), self.form.solver));
        let (plan, least_bytes) =
            plan.map_err(|small| budget.too_small(self.key, &small, known.uncounted_bytes()))?;
        let budget_bytes = budget.bytes();
        leaner::offer(Arc::new(Leaner {
            known: known.clone(),
            plan: plan.clone(),
            budget_bytes,
            least_bytes,
        }));
        Ok(plan)
    }

    fn take(&mut self, known: Arc<Structure>, budget: RegionBudget, plan: Arc<Plan>) -> Chosen {
        let actions = Step::all(plan.actions(), plan.stages());
        self.running.begin(plan, budget.device());
        let (prints, cuts) = (known.prints.clone(), known.cuts.clone());
        self.taken = Some((known, budget));
        Chosen { prints, cuts, actions }
    }
}
