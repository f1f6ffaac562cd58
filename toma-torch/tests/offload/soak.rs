//! Ten minutes of training in which activations are recomputed and weights are evicted: nothing accumulates.

#![expect(unsafe_code, reason = "the system's allocator returns its free pages before they are counted")]

use std::time::{Duration, Instant};

use tch::nn::{self, ModuleT as _, OptimizerConfig as _, VarStore};
use tch::{Device, Kind, Tensor};
use toma_torch::offload::{Lru, Manager};
use toma_torch::{checkpoint, cpu};

use crate::alone::alone;
use crate::resident;

/// Steps after which the record of operators is full: 131,072 operators, 25 per step.
const WARM_UP: usize = 6000;
const MINUTES: usize = 8;
const STEPS_BETWEEN: u64 = 100;
const MINUTE: Duration = Duration::from_secs(60);
/// Bytes that the system's allocator may keep, because it splits chunks of other sizes anew: about three bytes a step.
const SLACK_BYTES: u64 = 64 << 10;

#[test]
#[ignore = "takes ten minutes: cargo xtask nightly soak"]
fn resident_memory_does_not_grow_after_the_warm_up() {
    let _alone = alone();
    let variables = VarStore::new(Device::Cpu);
    let net = perceptron(&variables);
    let mut optimizer = nn::Adam::default().build(&variables, 1e-3).unwrap();
    let rows = Tensor::rand([64, 256], (Kind::Float, Device::Cpu));
    let device = toma_torch::Device::new(Device::Cpu);
    // Parameters, gradients and the optimizer's state take 8 MiB.
    let manager = Manager::new(&device).budget(6 << 20).min_bytes(1).eviction(Lru);
    let _entered = manager.enter().unwrap();
    let mut step = || {
        let loss =
            checkpoint::with().name("net").region(|| net.forward_t(&rows, true)).square().mean(Kind::Float);
        optimizer.backward_step(&loss);
        assert!(loss.double_value(&[]).is_finite());
    };

    (0..WARM_UP).for_each(|_| step());
    // The minimum of each minute, because how much of a page is free fluctuates.
    let mut minute = || {
        let (begin, mut steps, mut least_bytes) = (Instant::now(), 0_u64, u64::MAX);
        while begin.elapsed() < MINUTE {
            step();
            steps += 1;
            if steps.is_multiple_of(STEPS_BETWEEN) {
                least_bytes = least_bytes.min(resident_bytes());
            }
        }
        println!("{steps} steps: {least_bytes} resident, {} allocated bytes", cpu::allocated_bytes());
        (least_bytes, cpu::allocated_bytes())
    };
    let (first, last) = (minute(), (1..MINUTES).map(|_| minute()).last().unwrap());
    assert!(manager.report().to_string().contains("offload"), "nothing was evicted: {}", manager.report());
    assert_eq!(last.1, first.1, "allocated bytes");
    assert!(
        last.0 <= first.0 + SLACK_BYTES,
        "resident bytes: {} in the first minute, {} in the last",
        first.0,
        last.0
    );
}

/// Resident bytes, without free pages that the system's allocator keeps for itself, and without pages of mapped files,
/// which the kernel drops and reads again.
fn resident_bytes() -> u64 {
    unsafe extern "C" {
        fn malloc_trim(kept_bytes: usize) -> i32;
    }
    // SAFETY: a function of glibc that any thread may call at any time.
    unsafe { malloc_trim(0) };
    resident::bytes("RssAnon")
}

fn perceptron(variables: &VarStore) -> nn::SequentialT {
    let layer = |at| nn::linear(variables.root() / at, 256, 256, nn::LinearConfig::default());
    (0..8).fold(nn::seq_t(), |net, at| net.add(layer(at)).add_fn(Tensor::tanh))
}
