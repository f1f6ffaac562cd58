//! Ten minutes of training in which activations are recomputed and weights are evicted: nothing accumulates.

use std::fs;
use std::time::{Duration, Instant};

use tch::nn::{self, ModuleT as _, OptimizerConfig as _, VarStore};
use tch::{Device, Kind, Tensor};
use toma_torch::offload::{Lru, Manager};
use toma_torch::{checkpoint, cpu};

use crate::alone::alone;

const MINUTE: Duration = Duration::from_secs(60);
/// What the system's allocator may keep besides, because chunks of other sizes are split anew: less than a byte a step.
const SLACK_BYTES: u64 = 64 << 10;

#[test]
#[ignore = "takes ten minutes: cargo xtask nightly rounds"]
fn resident_memory_does_not_grow_after_the_first_minute() {
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

    let (begin, mut steps) = (Instant::now(), 0_u64);
    let mut run = |until: Duration| {
        while begin.elapsed() < until {
            step();
            steps += 1;
        }
        (resident_bytes(), cpu::allocated_bytes())
    };
    let after_a_minute = run(MINUTE);
    let at_the_end = run(10 * MINUTE);
    println!("{steps} steps: resident and allocated bytes {after_a_minute:?}, then {at_the_end:?}");
    assert!(manager.report().to_string().contains("offload"), "nothing was evicted: {}", manager.report());
    assert_eq!(at_the_end.1, after_a_minute.1, "allocated bytes");
    assert!(
        at_the_end.0 <= after_a_minute.0 + SLACK_BYTES,
        "resident bytes: {after_a_minute:?}, then {at_the_end:?}"
    );
}

fn perceptron(variables: &VarStore) -> nn::SequentialT {
    let layer = |at| nn::linear(variables.root() / at, 256, 256, nn::LinearConfig::default());
    (0..8).fold(nn::seq_t(), |net, at| net.add(layer(at)).add_fn(Tensor::tanh))
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB")).unwrap();
    kib.trim().parse::<u64>().unwrap() << 10
}
