//! Storages evicted from a device: the bits are those of the plain run, the budget holds, and fetches are fast.

use std::time::Instant;

use tch::nn::{self, ModuleT as _, OptimizerConfig as _, VarStore};
use tch::{Kind, Tensor};
use toma::memory::MemorySource as _;
use toma_torch::Device;
use toma_torch::offload::{Eviction, Flow, Genoa, Lru, Manager};

use crate::card::{on_card, registered_bytes, set_taken, this};
use crate::child::answer;
use crate::measure::mib;
use crate::table::{Check, on_gpu};

pub(crate) const CHECKS: &[Check] = &[
    on_gpu("offload: steps in 60 % of their peak have the plain bits", steps),
    on_card("offload: the driver has no more for a step", full_card),
    on_gpu("offload: a tensor from before keeps to the budget", resizes),
    on_card("offload: two cards, each in its own budget", two_cards),
    on_gpu("offload: a fetch beside a plain copy", fetches),
    on_gpu("offload: everything is parked, and comes back", parks),
    on_card("offload: the host's side is pinned, as long as it is used", pins),
];

const GPU: tch::Device = tch::Device::Cuda(0);
const FLOATS: (Kind, tch::Device) = (Kind::Float, GPU);
const STEPS: usize = 4;

/// Returns the losses of some steps of ResNet-18, its weights, and the peak beyond the bytes allocated before.
fn learned() -> (Vec<f64>, Vec<Tensor>, u64) {
    learned_on(GPU)
}

fn learned_on(gpu: tch::Device) -> (Vec<f64>, Vec<Tensor>, u64) {
    let device = Device::new(gpu);
    tch::manual_seed(5);
    tch::Cuda::manual_seed_all(5);
    let vs = VarStore::new(gpu);
    let net = tch::vision::resnet::resnet18(&vs.root(), 10);
    let mut optimizer = nn::Adam::default().build(&vs, 1e-3).unwrap();
    let images = Tensor::randn([8, 3, 64, 64], (Kind::Float, gpu));
    let classes = Tensor::randint(10, [8], (Kind::Int64, gpu));
    device.reset_peaks().unwrap();
    let losses = (0..STEPS).map(|_| {
        let loss = net.forward_t(&images, true).cross_entropy_for_logits(&classes);
        optimizer.backward_step(&loss);
        loss.double_value(&[])
    });
    let losses = losses.collect();
    let peak = device.stats().unwrap().peak_allocated_bytes;
    let mut variables: Vec<_> = vs.variables().into_iter().collect();
    variables.sort_by(|(a, _), (b, _)| a.cmp(b));
    let weights = variables.into_iter().map(|(_, weight)| weight.detach().to_device(tch::Device::Cpu));
    (losses, weights.collect(), peak)
}

/// Bits are compared only if two plain runs agree bit for bit.
fn steps() -> String {
    let before = Device::new(GPU).stats().unwrap().allocated_bytes;
    let (plain, again) = (learned(), learned());
    let is_repeatable = (&plain.0, &plain.1) == (&again.0, &again.1);
    let budget = before + (plain.2 - before) * 6 / 10;
    let evictions: [(&str, Box<dyn Eviction>); 3] =
        [("lru", Box::new(Lru)), ("genoa", Box::new(Genoa)), ("flow", Box::<Flow>::default())];
    let mut figures = Vec::new();
    for (name, eviction) in evictions {
        let manager = Manager::new(&Device::new(GPU)).budget(budget).eviction(eviction);
        let entered = manager.enter().unwrap();
        let begun = Instant::now();
        let (losses, weights, peak) = learned();
        figures.push(format!("{name} {} in {:.1?}", mib(peak), begun.elapsed()));
        assert!(peak <= budget + (1 << 20), "{name}: {peak} bytes of a budget of {budget}");
        manager.fetch_all().unwrap();
        drop(entered);
        assert!(!is_repeatable || (&losses, &weights) == (&plain.0, &plain.1), "{name}: other bits");
        if name == "flow" {
            let planned = manager.plan();
            let [inwards, outwards] =
                [planned.terms().in_bytes_per_second, planned.terms().out_bytes_per_second];
            assert!(planned.plan().is_some());
            figures.push(format!("planned by {inwards:.2e} and {outwards:.2e} bytes per second"));
        }
    }
    let repeatable = if is_repeatable { "equal" } else { "not compared: the plain run differs from itself" };
    format!("bits {repeatable}; budget {}, plain {}: {}", mib(budget), mib(plain.2), figures.join(", "))
}

/// Runs in a process of its own, where no segment of another check has room.
fn full_card() -> String {
    answer(&mut this("card full", &[]))
}

/// Storages are evicted when the driver has no memory left, also in the middle of an operator.
pub(crate) fn full() {
    let device = Device::new(GPU);
    let plain = learned();
    device.release_cached_memory();
    let reserved = device.stats().unwrap().reserved_bytes;
    let total = toma::cuda::Device::new(0).unwrap().read().unwrap().total_bytes;
    set_taken(total - reserved - plain.2 * 4 / 10);
    let manager = Manager::new(&device).budget(u64::MAX / 2).eviction(Lru);
    let entered = manager.enter().unwrap();
    let (losses, weights, peak) = learned();
    set_taken(0);
    manager.fetch_all().unwrap();
    drop(entered);
    assert_eq!((&losses, &weights), (&plain.0, &plain.1));
    let report = manager.report();
    assert!(report.offloads > 0);
    println!("answer: {} of {}, {} evictions", mib(peak), mib(plain.2), report.offloads);
}

fn two_cards() -> String {
    answer(&mut this("card two", &[("PAPER_CARDS", "2")]))
}

/// One thread enters both managers, and each card's steps alternate with those of the other.
pub(crate) fn two() {
    let cards = [0, 1].map(tch::Device::Cuda);
    let plain = cards.map(learned_on);
    let budgets = [0, 1].map(|at| plain[at].2 * (6 + at as u64) / 10);
    let managers = [0, 1].map(|at| Manager::new(&Device::new(cards[at])).budget(budgets[at]).eviction(Lru));
    let entered = managers.each_ref().map(|manager| manager.enter().unwrap());
    let peaks = [0, 1, 0, 1].map(|at| {
        let (losses, weights, peak) = learned_on(cards[at]);
        assert!(peak <= budgets[at] + (1 << 20), "card {at}: {peak} bytes of a budget of {}", budgets[at]);
        managers[at].fetch_all().unwrap();
        assert_eq!((&losses, &weights), (&plain[at].0, &plain[at].1), "card {at}");
        mib(peak)
    });
    drop(entered);
    println!("answer: {peaks:?} of {:?}", plain.map(|plain| mib(plain.2)));
}

/// Moves 256 MiB there and back.
fn fetches() -> String {
    let tensor = Tensor::ones([1 << 26], FLOATS);
    let manager = Manager::new(&Device::new(GPU)).budget(u64::MAX / 2);
    let _entered = manager.enter().unwrap();
    let handle = manager.adopt(&tensor);
    let host = Tensor::ones([1 << 26], (Kind::Float, tch::Device::Cpu)).pin_memory(GPU);
    let timed = |work: &mut dyn FnMut()| {
        tch::Cuda::synchronize(0);
        let begun = Instant::now();
        work();
        tch::Cuda::synchronize(0);
        begun.elapsed()
    };
    let mut plain = Vec::new();
    let mut fetched = Vec::new();
    for _ in 0..9 {
        plain.push(timed(&mut || drop(host.to_device(GPU))));
        handle.offload().unwrap();
        fetched.push(timed(&mut || handle.fetch().unwrap()));
    }
    plain.sort();
    fetched.sort();
    let share = plain[4].as_secs_f64() / fetched[4].as_secs_f64() * 100.0;
    format!("{:.1?}, a pinned copy {:.1?}: {share:.0} % of its speed (bar 85 %)", fetched[4], plain[4])
}

fn parks() -> String {
    let device = Device::new(GPU);
    let before = device.stats().unwrap().allocated_bytes;
    let manager = Manager::new(&device).budget(u64::MAX / 2).min_bytes(1);
    let _entered = manager.enter().unwrap();
    let tensors: Vec<_> = (1..5).map(|mibs| Tensor::arange(mibs << 18, FLOATS)).collect();
    let sums: Vec<_> = tensors.iter().map(|tensor| tensor.sum(Kind::Double).double_value(&[])).collect();
    let parked = manager.park().unwrap();
    let (moved, left) = (parked.bytes(), device.stats().unwrap().allocated_bytes - before);
    parked.resume().unwrap();
    let again: Vec<_> = tensors.iter().map(|tensor| tensor.sum(Kind::Double).double_value(&[])).collect();
    assert_eq!(again, sums);
    format!("{} left the device, {left} bytes stayed", mib(moved))
}

/// A pinned block is reused by the next eviction, and ends with the manager.
fn pins() -> String {
    let before = registered_bytes();
    let manager = Manager::new(&Device::new(GPU)).budget(u64::MAX / 2);
    let entered = manager.enter().unwrap();
    let pinned = [8 << 20, 5 << 20].map(|bytes| {
        let tensor = Tensor::ones([bytes / 4], FLOATS);
        let handle = manager.adopt(&tensor);
        handle.offload().unwrap();
        registered_bytes() - before
    });
    assert_eq!(pinned, [8 << 20, 5 << 20]);
    drop((entered, manager));
    assert_eq!(registered_bytes(), before);
    format!("{pinned:?} bytes")
}

fn resizes() -> String {
    let device = Device::new(GPU);
    device.release_cached_memory();
    let mut old = Tensor::ones([16], FLOATS);
    let manager = Manager::new(&device).budget(device.stats().unwrap().allocated_bytes + (8 << 20));
    let _entered = manager.enter().unwrap();
    let refused = old.f_resize_([16 << 20]).unwrap_err().to_string();
    assert!(refused.contains("tried to allocate 67108864 bytes"), "{refused}");
    drop(Tensor::ones([0], FLOATS));
    refused.lines().next().unwrap().to_owned()
}
