//! Loops on a device that has a manager.

use std::time::Duration;

use crate::ground::{self, Budget};
use tch::{Kind, TchError, Tensor};
use toma_core::NoCache;
use toma_core::execute;
use toma_core::policy::Policy;
use toma_core::testing::StoppedClock;
use toma_core::{Adaptive, Throughput};
use toma_torch::offload::{Lru, Manager};

use crate::kit::{alone, cpu_device, entered};

const ITEMS: usize = 8192;

/// Two layers, of which only one fits next to some rows.
struct Layers([Tensor; 2]);

impl Layers {
    fn new() -> Self {
        Self([[256, 1024], [1024, 256]].map(|shape| Tensor::ones(shape, ground::floats()) * 0.01))
    }

    /// Applies the layers to rows of ones, and sums the results.
    fn sum(&self, count: usize) -> Result<f64, TchError> {
        let rows = Tensor::f_ones([i64::try_from(count).unwrap(), 256], ground::floats())?;
        let hidden = rows.f_mm(&self.0[0])?;
        drop(rows);
        hidden.f_mm(&self.0[1])?.f_sum(Kind::Double)?.f_double_value(&[])
    }
}

/// Returns the sizes that were tried, each with `true` if it ran.
fn sizes_of(manager: &Manager, policy: impl Policy, layers: &Layers) -> Vec<(usize, bool)> {
    let mut sizes: Vec<(usize, bool)> = Vec::new();
    let (mut total, clock) = (0.0, StoppedClock::new());
    execute::with::<NoCache>()
        .device(manager)
        .policy(policy)
        .range(0..ITEMS, 4096, |start, end| {
            let sum = layers.sum(end - start);
            clock.advance(Duration::from_millis(100));
            sizes.push((end - start, sum.is_ok()));
            total += sum?;
            Ok::<_, TchError>(())
        })
        .unwrap();
    let expected = f64::from(u32::try_from(ITEMS).unwrap()) * 256.0 * 256.0 * 1024.0 * 1e-4;
    assert!((total / expected - 1.0).abs() < 1e-3, "{total}, {expected}");
    sizes
}

/// Finds the largest size that runs, by trying.
fn largest(layers: &Layers) -> usize {
    let (mut runs, mut fails) = (1, 4096);
    while fails - runs > 1 {
        let half = usize::midpoint(runs, fails);
        if layers.sum(half).is_ok() {
            runs = half;
        } else {
            fails = half;
        }
    }
    runs
}

#[test]
fn policies_that_measure_find_the_largest_size_that_the_least_budget_allows() {
    let _alone = alone();
    let before = ground::allocated_bytes();
    let bytes = before + (3 << 20);
    let resident = {
        let layers = Layers::new();
        let _budget = Budget::new(bytes);
        largest(&layers)
    };
    let (manager, _entered) = entered(bytes, Lru);
    let layers = Layers::new();
    let largest = largest(&layers);
    assert!(largest > 2 * resident, "{largest} of {resident}");
    let sizes = sizes_of(&manager, Adaptive::default(), &layers);
    let most = |sizes: &[(usize, bool)]| sizes.iter().filter(|(_, runs)| *runs).map(|(size, _)| *size).max();
    let found = most(&sizes).unwrap();
    assert!(found <= largest && found * 10 >= largest * 9, "{found} of {largest}: {sizes:?}");
    // Attempts take the same time at any size, so the largest size has the highest throughput.
    let sizes = sizes_of(&manager, Throughput::default(), &layers);
    let found = most(&sizes).unwrap();
    assert!(found <= largest && found * 10 >= largest * 9, "{found} of {largest}: {sizes:?}");
    let fastest = sizes.iter().filter(|(size, _)| *size == found).count();
    assert!(fastest * found * 2 > ITEMS, "{sizes:?}");
}

#[test]
fn without_a_budget_of_its_own_a_manager_of_the_cpu_has_the_current_one() {
    let _alone = alone();
    let parts = || (0..4).map(|at| Tensor::full([1 << 18], at, ground::floats())).collect::<Vec<_>>();
    let sum =
        |parts: &[Tensor]| parts.iter().map(|part| part.sum(Kind::Float).double_value(&[])).sum::<f64>();
    for is_limited in [false, true] {
        let manager = Manager::new(&cpu_device()).eviction(Lru);
        let bytes = ground::allocated_bytes() + (3 << 20);
        let _budget = is_limited.then(|| Budget::new(bytes));
        let _entered = manager.enter().unwrap();
        ground::reset_peak_allocated_bytes();
        let parts = parts();
        assert_eq!(sum(&parts).to_bits(), f64::from(6 << 18).to_bits());
        assert_eq!(manager.report().offloads > 0, is_limited, "{}", manager.report());
        assert_eq!(ground::peak_allocated_bytes() <= bytes, is_limited);
    }
}
