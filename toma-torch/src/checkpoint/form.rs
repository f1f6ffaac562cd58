use std::sync::Arc;

use toma_plan::checkpoint::{Costs, Plan, Solver};

use super::learned::{self, RegionKey, Structure};

/// Options of a checkpointed region.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_torch::checkpoint::{self, Solver};
///
/// let input = Tensor::ones([1024], (Kind::Float, Device::Cpu)).set_requires_grad(true);
/// let net = || (0..16).fold(input.shallow_clone(), |value, _| {
///     checkpoint::cut();
///     value.tanh()
/// });
/// let form = checkpoint::with().solver(Solver::Auto).name("tanh");
/// let costs = form.measure(net)?;
/// let plan = costs.plan(9 * 4096, Solver::Auto)?;
/// form.plan(&plan).region(net).sum(Kind::Float).backward();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "does nothing until a region is run with it"]
#[derive(Clone, Copy, Debug)]
pub struct With<'a> {
    pub(super) budget_bytes: Option<u64>,
    pub(super) solver: Solver,
    pub(super) plan: Option<&'a Plan>,
    pub(super) verify: bool,
    pub(super) keep_size: bool,
    pub(super) enabled: bool,
    pub(super) name: Option<&'a str>,
}

/// Returns the default options.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::checkpoint;
///
/// let weight = Tensor::ones([64, 64], (Kind::Float, tch::Device::Cpu)).set_requires_grad(true);
/// let form = checkpoint::with().budget(1 << 20).name("block");
/// form.region(|| weight.sigmoid().tanh()).sum(Kind::Float).backward();
/// ```
pub fn with() -> With<'static> {
    With::default()
}

impl Default for With<'_> {
    /// [`Solver::Auto`] within the free bytes of the device.
    fn default() -> Self {
        Self {
            budget_bytes: None,
            solver: Solver::Auto,
            plan: None,
            verify: false,
            keep_size: false,
            enabled: true,
            name: None,
        }
    }
}

impl<'a> With<'a> {
    /// Sets the budget: bytes beyond those that are allocated when the region starts. The default is the free bytes of
    /// the device less 2 to 4 %. On CUDA these are allocated bytes, as those of plans: free parts of the segments that
    /// the allocator reserves do not count, so a budget below the free bytes should leave room for them.
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget_bytes = Some(bytes);
        self
    }

    /// Sets the solver that finds plans.
    pub fn solver(mut self, solver: Solver) -> Self {
        self.solver = solver;
        self
    }

    /// Uses a plan of measured [`Costs`]. Its stages must be those of the region.
    pub fn plan(mut self, plan: &'a Plan) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Compares each recomputed tensor with its first value by a hash; an error names the stage and the operator. This
    /// reads every tensor twice. Shapes, kinds and counts are always compared.
    pub fn verify(mut self, on: bool) -> Self {
        self.verify = on;
        self
    }

    /// Treats pieces as batches: their size is kept while any plan fits. A form that predicts sizes tries all items
    /// first then, because its dry runs count the bytes without a plan.
    pub fn keep_size(mut self, on: bool) -> Self {
        self.keep_size = on;
        self
    }

    /// With `false` the closure runs without recomputation, as with memonger's `set_reforward(False)`.
    pub fn enabled(mut self, on: bool) -> Self {
        self.enabled = on;
        self
    }

    /// Names the region in reports and errors. Learned costs then belong to the name instead of the call site.
    pub fn name(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// Returns the learned costs of the newest structure of this region, if its backward has run. `None` without a
    /// [`name`](Self::name), because such a region is identified by the call site of `region`: its
    /// [report](super::Report::known) has them.
    ///
    /// They count the gradients of variables if no variable of the region has one now.
    pub fn known(&self) -> Option<Costs> {
        Some(self.newest()?.costs().clone())
    }

    /// Returns the least [budget](Self::budget) in bytes with which this region runs now, `None` where
    /// [`known`](Self::known) is. That is [`Costs::least_bytes`], and gradients that its variables lost after the region
    /// was measured.
    pub fn least_budget(&self) -> Option<u64> {
        Some(self.newest()?.least_budget())
    }

    fn newest(&self) -> Option<Arc<Structure>> {
        learned::newest(&RegionKey::Named(self.name?.into()))
    }
}
