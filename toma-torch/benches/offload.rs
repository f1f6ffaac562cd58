//! Costs of a manager: per operator and per step if everything fits, the speed of fetches, and steps in little memory.
//!
//! Times are of the processor, one thread, in the order a, b, b, a, and ratios are medians. Steps in little memory are
//! timed by the clock, because other threads copy. With `--test` every case runs once.

use std::env;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use tch::nn::OptimizerConfig as _;
use tch::{Kind, Tensor};
use toma_torch::offload::{Eviction, Flow, Lru, Manager};
use toma_torch::{Device, cpu};

#[path = "../tests/common/nets.rs"]
mod nets;

/// Images in a batch of ResNet-20. The batches of other nets grow with it.
const IMAGES: i64 = 32;
const FLOATS: (Kind, tch::Device) = (Kind::Float, tch::Device::Cpu);

fn main() {
    let is_test = env::args().any(|argument| argument == "--test");
    tch::set_num_threads(1);
    cpu::count();
    let runs = if is_test { 1 } else { 15 };
    other_threads(runs, if is_test { 10 } else { 20_000 });
    operators(runs, if is_test { 10 } else { 20_000 });
    step(runs, if is_test { 1 } else { 5 });
    fetches(if is_test { 2 } else { 200 });
    evictions(if is_test { 1 } else { 3 }, if is_test { 2 } else { 10 });
}

fn manager() -> Manager {
    // Everything fits, and the budget is known.
    Manager::new(&Device::new(tch::Device::Cpu)).budget(cpu::allocated_bytes() + (1 << 30))
}

/// Times a thread that never enters, before and after the first manager is made. The manager's observer stays for good,
/// so the two cannot alternate.
fn other_threads(runs: usize, count: u32) {
    let [one, other, out] = [0, 1, 2].map(|_| Tensor::ones([8], FLOATS));
    let mut work = || {
        for _ in 0..count {
            let _sum = out.f_add_out(&one, &other).expect("they have one shape");
        }
    };
    let mut timed_runs = || median((0..=runs).map(|_| timed(&mut work)).collect());
    let plain = timed_runs();
    let _manager = manager();
    let observed = timed_runs();
    let [plain, observed] = [plain, observed].map(|time| time.as_secs_f64() * 1e9 / f64::from(count));
    let added = observed - plain;
    println!(
        "an operator of a thread that has not entered: {plain:.0} ns, {added:.0} ns more  (bar: 100 ns)"
    );
}

fn operators(runs: usize, count: u32) {
    let [one, other] = [0, 1].map(|_| Tensor::ones([1 << 15], FLOATS));
    let mut work = || {
        for _ in 0..count {
            let _sum = one.shallow_clone().g_add_(&other);
        }
    };
    let (plain, managed) = compared(runs, &mut work);
    let added = (managed.as_secs_f64() - plain.as_secs_f64()) * 1e9 / f64::from(count);
    println!("an operator of two large tensors: {added:.0} ns more  (bar: 800 ns)");
}

fn step(runs: usize, steps: u32) {
    for net in nets::NETS {
        let net = net();
        let sgd = tch::nn::sgd(0.9, 0.0, 0.0, false);
        let mut optimizer = sgd.build(&net.variables, 1e-3).expect("an optimizer");
        let mut work = || (0..steps).for_each(|_| optimizer.backward_step(&net.loss()));
        work();
        let (plain, managed) = compared(runs, &mut work);
        let ratio = managed.as_secs_f64() / plain.as_secs_f64();
        println!("steps of {} that fit: {ratio:.3}x  (bar: 1.03x for resnet20)", net.name);
    }
}

/// Returns the medians without and with a manager.
fn compared(runs: usize, work: &mut dyn FnMut()) -> (Duration, Duration) {
    let (mut plain, mut managed) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        plain.push(timed(work));
        for _ in 0..2 {
            let fitting = manager();
            let _entered = fitting.enter().expect("one manager");
            managed.push(timed(work));
        }
        plain.push(timed(work));
    }
    (median(plain), median(managed))
}

/// Times fetches against a copy into memory that is allocated for it.
fn fetches(count: usize) {
    let tensor = Tensor::ones([1 << 22], FLOATS);
    let manager = manager();
    let _entered = manager.enter().expect("one manager");
    let handle = manager.adopt(&tensor);
    let (mut fetched, mut copied) = (Vec::new(), Vec::new());
    for _ in 0..count {
        handle.offload().expect("it is idle");
        let began = Instant::now();
        handle.fetch().expect("it fits");
        fetched.push(began.elapsed());
        let other = tensor.copy();
        drop(other);
        let began = Instant::now();
        let other = tensor.copy();
        copied.push(began.elapsed());
        drop(other);
    }
    let part = median(copied).as_secs_f64() / median(fetched).as_secs_f64();
    println!("a fetch of 16 MiB: {:.0} % of the speed of a copy  (bar: 85 %)", 100.0 * part);
}

/// Times the first steps of nets in a part of their bytes, by the default eviction and by the least recently used.
fn evictions(runs: usize, steps: usize) {
    for make in [nets::transformer, nets::resnet20] {
        let (before, name) = (cpu::allocated_bytes(), make().name);
        cpu::reset_peak_allocated_bytes();
        first_steps(make, 2);
        let peak_bytes = cpu::peak_allocated_bytes() - before;
        for percent in [60, 40] {
            let within = |eviction: Box<dyn Eviction>| {
                let device = Device::new(tch::Device::Cpu);
                let manager =
                    Manager::new(&device).eviction(eviction).budget(before + peak_bytes * percent / 100);
                let _entered = manager.enter().expect("one manager");
                first_steps(make, steps)
            };
            let (mut flow, mut lru) = (Vec::new(), Vec::new());
            for _ in 0..runs {
                lru.push(within(Box::new(Lru)));
                flow.extend([(); 2].map(|()| within(Box::<Flow>::default())));
                lru.push(within(Box::new(Lru)));
            }
            let ratio = median(flow).as_secs_f64() / median(lru).as_secs_f64();
            println!("{steps} steps of {name} in {percent} %: Flow {ratio:.2}x of Lru  (bar: 1.00x)");
        }
    }
}

fn first_steps(make: fn() -> nets::Net, steps: usize) -> Duration {
    let net = make();
    let sgd = tch::nn::sgd(0.9, 0.0, 0.0, false);
    let mut optimizer = sgd.build(&net.variables, 1e-3).expect("an optimizer");
    let began = Instant::now();
    (0..steps).for_each(|_| optimizer.backward_step(&net.loss()));
    began.elapsed()
}

fn timed(work: &mut dyn FnMut()) -> Duration {
    let began = ThreadTime::now();
    work();
    began.elapsed()
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}
