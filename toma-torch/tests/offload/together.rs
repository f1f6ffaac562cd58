//! All features at once: dry runs, a profiler, checkpointed regions, offloaded storages, ranks and retries in one
//! training step, with a failure at each of its allocations.

use std::thread;

use crate::ground::{self, FailingAllocation, doubles};
use tch::nn::{self, VarStore};
use tch::{Kind, TchError, Tensor};
use toma_core::NoCache;
use toma_core::execute;
use toma_core::ranks::{Member, threads};
use toma_torch::checkpoint;
use toma_torch::offload::{Lru, Manager, Residency};
use toma_torch::profile::Profiler;
use toma_torch::{Backward as _, Device, DryRun, Loss, accumulate_gradients};

use crate::alone::alone;

/// Model and data of one rank.
struct Part {
    variables: VarStore,
    layers: Vec<nn::Linear>,
    rows: Tensor,
}

impl Part {
    /// Ranks have different numbers of rows.
    fn new(rank: usize) -> Self {
        tch::manual_seed(7);
        let mut variables = VarStore::new(ground::device());
        let root = variables.root();
        let layers = (0..4).map(|at| nn::linear(&root / at, 32, 32, nn::LinearConfig::default())).collect();
        variables.set_kind(Kind::Double);
        let rows = Tensor::arange([24, 17][rank] * 32, doubles()).reshape([-1, 32]).sin();
        Self { variables, layers, rows }
    }

    fn forward(&self, rows: &Tensor) -> Result<Tensor, TchError> {
        self.layers.iter().try_fold(rows.shallow_clone(), |rows, layer| {
            rows.f_linear(&layer.ws, layer.bs.as_ref())?.f_tanh()
        })
    }

    fn zero_gradients(&self) {
        for mut variable in self.variables.trainable_variables() {
            variable.zero_grad();
        }
    }

    /// Gradients of the variables by name, without handles to them.
    fn gradients(&self) -> Vec<Vec<f64>> {
        let variables = self.variables.variables();
        let mut named: Vec<_> = variables.into_iter().collect();
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        let values = |variable: &Tensor| Vec::<f64>::try_from(variable.grad().flatten(0, -1)).unwrap();
        named.iter().map(|(_, variable)| values(variable)).collect()
    }

    /// Returns the gradients of all rows at once, by plain tch.
    fn plainly(&self) -> Vec<Vec<f64>> {
        self.zero_gradients();
        self.forward(&self.rows).unwrap().square().sum(Kind::Double).backward();
        self.gradients()
    }

    /// Computes the same gradients with all features.
    fn by_everything(&self, manager: &Manager, rank: &Member) -> Result<(), TchError> {
        let variables = self.variables.trainable_variables();
        let form = execute::with::<NoCache>().name("step").device(manager).ranks(rank).predict(&DryRun);
        let loss = form.backward(Loss::Sum, &variables, &self.rows, |rows| {
            let output = checkpoint::with().name("layers").f_region(|| self.forward(rows))?;
            output.f_square()?.f_sum(Kind::Double)
        });
        loss.map(drop)
    }
}

fn largest_difference(one: &[Vec<f64>], other: &[Vec<f64>]) -> f64 {
    let pairs = one.iter().flatten().zip(other.iter().flatten());
    pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
}

/// Runs the step on both ranks, and lets an allocation of one of them fail. Returns true if it failed.
fn step(parts: &mut [Part; 2], ranks: &[Member], manager: &Manager, fails: (usize, u32)) -> bool {
    thread::scope(|scope| {
        let run = |(number, (part, rank)): (usize, (&mut Part, &Member))| {
            let _entered = manager.enter().unwrap();
            let failing = (number == fails.0).then(|| FailingAllocation::after(fails.1));
            part.by_everything(manager, rank).unwrap_or_else(|error| panic!("{fails:?}: {error}"));
            failing.is_some_and(|failing| failing.has_failed())
        };
        let parts = parts.iter_mut().zip(ranks).enumerate();
        let running: Vec<_> = parts.map(|part| scope.spawn(move || run(part))).collect();
        running.into_iter().fold(false, |any, rank| any | rank.join().unwrap())
    })
}

#[test]
fn a_failure_at_any_allocation_of_everything_is_made_good() {
    let _alone = alone();
    let mut parts = [Part::new(0), Part::new(1)];
    let expected = [parts[0].plainly(), parts[1].plainly()];
    let ranks = threads(2);
    let profiling = Profiler::new().start().unwrap();
    let manager = Manager::new(&Device::new(ground::device())).min_bytes(1).eviction(Lru);
    // Storages that nothing uses must be evicted for the step.
    let idle = Tensor::zeros([1 << 15], doubles());
    let manager = manager.budget(ground::allocated_bytes() + (8 << 10));
    let handle = manager.adopt(&idle);
    let mut held = None;
    for rank in 0..2 {
        let (mut allocation, mut has_failed) = (0, true);
        while has_failed {
            for part in &parts {
                part.zero_gradients();
            }
            has_failed = step(&mut parts, &ranks, &manager, (rank, allocation));
            manager.fetch_all().unwrap();
            assert_eq!(handle.residency(), Residency::Resident);
            for (part, expected) in parts.iter().zip(&expected) {
                let off = largest_difference(&part.gradients(), expected);
                assert!(off < 1e-12, "rank {rank}, {allocation}: {off}");
            }
            let now = (ground::allocated_bytes(), manager.status().evicted);
            assert_eq!(*held.get_or_insert(now), now, "rank {rank}, {allocation}");
            assert!(ranks[0].store().keys() < 16, "rank {rank}, {allocation}");
            allocation += 1;
        }
        assert!(allocation > 20, "{allocation} allocations");
    }
    assert!(manager.report().fetches > 0, "{}", manager.report());
    let lines = profiling.lines().to_string();
    assert!(lines.contains(" of step"), "{lines}");
}

/// The manager has to fetch the sums. Beside what the body keeps of eight items, the larger one does not fit after the
/// smaller one.
#[test]
fn gradients_under_a_manager_are_added_all_or_none() {
    let _alone = alone();
    let floats = (Kind::Float, ground::device());
    let manager = Manager::new(&Device::new(ground::device())).eviction(Lru);
    let _entered = manager.enter().unwrap();
    let before = ground::allocated_bytes();
    let [small, large] = [1 << 14, 1 << 18].map(|size| Tensor::zeros([size], floats).set_requires_grad(true));
    for variable in [&small, &large] {
        (variable * 0.0).sum(Kind::Float).backward();
    }
    let data = Tensor::arange(8, floats);
    manager.set_budget(before + (2 << 20) + (192 << 10)).unwrap();
    let body = |rows: &Tensor, start: usize, end: usize| -> Result<(), TchError> {
        // Too small to be evicted, and alive until the body ends.
        let items = 0..i64::try_from(end - start).unwrap();
        let _kept: Vec<_> = items.map(|item| rows.get(item).repeat([1 << 13])).collect();
        let sums = small.f_sum(Kind::Float)? + large.f_narrow(0, 0, 1 << 17)?.f_sum(Kind::Float)?;
        accumulate_gradients(&(sums * rows.sum(Kind::Float)), &[&small, &large])
    };
    execute::with::<NoCache>().chunked(&data, 8, body).unwrap();
    let gradients = [&small, &large].map(|variable| variable.grad().double_value(&[0]).to_string());
    assert_eq!(gradients, ["28", "28"]);
}
