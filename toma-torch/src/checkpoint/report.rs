use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use toma_plan::checkpoint::{Costs, Plan};
use toma_trace::Size;

use super::learned::{self, RegionKey};
use super::measured::MeasuredRegion;

/// A region that has run.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    pub(super) key: RegionKey,
    pub(super) region: Arc<MeasuredRegion>,
    pub(super) plan: Option<Arc<Plan>>,
}

thread_local! {
    static LAST: RefCell<Option<Ran>> = const { RefCell::new(None) };
}

pub(super) fn set_last(ran: Ran) {
    // A thread that ends has no thread-local storage left for it.
    let _ = LAST.try_with(|last| last.replace(Some(ran)));
}

/// Returns the report of this thread's last region, with its backward once that has run; `None` before the first
/// region.
///
/// ```
/// # use tch::{Device, Kind, Tensor};
/// use toma_torch::checkpoint;
///
/// let weight = Tensor::ones([4], (Kind::Float, Device::Cpu)).set_requires_grad(true);
/// checkpoint::region(|| weight.sigmoid()).sum(Kind::Float).backward();
/// let report = checkpoint::last().unwrap();
/// assert_eq!((report.stages(), report.repeats()), (1, vec![1]));
/// assert!(report.plan().is_none(), "the first run measures");
/// ```
pub fn last() -> Option<Report> {
    let ran = LAST.try_with(|last| last.borrow().clone()).ok().flatten()?;
    Some(Report::of(&ran))
}

/// Report of a region: its plan, the predicted and the measured figures, and the operators that are kept, with the
/// reason.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::checkpoint;
///
/// let weight = Tensor::ones([64, 64], (Kind::Float, tch::Device::Cpu)).set_requires_grad(true);
/// for _ in 0..2 {
///     checkpoint::region(|| weight.sigmoid().tanh()).sum(Kind::Float).backward();
/// }
/// let report = checkpoint::last().unwrap();
/// assert!(report.plan().is_some(), "the second run follows a plan");
/// println!("{report}");
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    key: RegionKey,
    plan: Option<Arc<Plan>>,
    operators: u64,
    differs: Option<u64>,
    peak_bytes: u64,
    repeating: Duration,
    repeats: Vec<u32>,
    seconds: f64,
    kept: Vec<String>,
    is_over: bool,
}

impl Report {
    fn of(Ran { key, region, plan }: &Ran) -> Self {
        let (figures, stages) = (region.figures(), region.stages());
        let nanoseconds = stages.iter().map(|stage| stage.first.elapsed_ns + stage.backward_ns).sum::<u64>();
        let repeating = Duration::from_nanos(figures.repeat_ns);
        Self {
            key: key.clone(),
            plan: plan.clone(),
            operators: figures.operators,
            differs: (figures.differs != u64::MAX).then_some(figures.differs),
            peak_bytes: figures.peak_bytes,
            repeating,
            repeats: stages.iter().map(|stage| stage.repeats).collect(),
            seconds: Duration::from_nanos(nanoseconds).as_secs_f64() + repeating.as_secs_f64(),
            kept: region.kept().lines().map(str::to_owned).collect(),
            is_over: figures.is_over,
        }
    }

    /// Learned costs of the newest structure of this region; `None` before its backward has run once. For a region
    /// without a name, which no [`With`](super::With::known) identifies.
    pub fn known(&self) -> Option<Costs> {
        Some(learned::newest(&self.key)?.costs().clone())
    }

    /// The plan; `None` for a run that measures.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_deref()
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        self.repeats.len()
    }

    /// How often each stage was recomputed.
    pub fn repeats(&self) -> Vec<u32> {
        self.repeats.clone()
    }

    /// The most bytes so far beyond those that were allocated when the region began.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Seconds of all runs and backwards of the stages so far.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Time of the recomputations so far.
    pub fn repeating(&self) -> Duration {
        self.repeating
    }

    /// Operators that are kept because they cannot be recomputed exactly, with the reason.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }

    /// The number of the first operator that differed from the known structure.
    pub fn differs(&self) -> Option<u64> {
        self.differs
    }

    /// Returns true if the region's graph is gone, so that the figures are final.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Writes a line with the figures, the kept operators, and the plan.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operators, seconds, .. } = self;
        let [peak, repeats] =
            [Size::of(self.peak_bytes).to_string(), self.repeats.iter().sum::<u32>().to_string()];
        writeln!(f, "{key}: {operators} operators in {} stages, {repeats} repeats", self.stages())?;
        writeln!(
            f,
            "measured: {peak}, {seconds:.3} s, of which {:.3} s of repeating",
            self.repeating.as_secs_f64()
        )?;
        if !self.is_over {
            writeln!(f, "the graph is alive: figures may grow")?;
        }
        if let Some(operator) = self.differs {
            writeln!(f, "operator {operator} differs from the known structure")?;
        }
        for kept in &self.kept {
            writeln!(f, "kept: {kept}")?;
        }
        match &self.plan {
            Some(plan) => write!(f, "planned: {plan}"),
            None => writeln!(f, "no plan: its stages were measured"),
        }
    }
}
