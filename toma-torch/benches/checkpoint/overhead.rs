//! Costs of regions by themselves.

use std::error::Error;

use tch::{Device, Kind, Tensor};
use toma_torch::checkpoint::{self, Solver};
use toma_torch::cpu;

use crate::clock::{self, Spread};
use crate::verdict;

/// Numbers for which one operator takes 10 µs or a little more.
const NUMBERS: i64 = 1 << 13;
const REGIONS: usize = 40;
const OPERATORS: usize = 1000;

pub(crate) fn measure(runs: usize) -> Result<(), Box<dyn Error>> {
    regions(runs)?;
    recording(runs);
    bytes()
}

fn input(numbers: i64) -> Tensor {
    Tensor::rand([numbers], (Kind::Float, Device::Cpu)).set_requires_grad(true)
}

/// The median ratio of the times of `one` and `other`, in the order a, b, b, a.
fn ratio(runs: usize, mut one: impl FnMut(), mut other: impl FnMut()) -> f64 {
    let mut quadruple = || {
        let first = clock::seconds(&mut one);
        let others = clock::seconds(&mut other) + clock::seconds(&mut other);
        (first + clock::seconds(&mut one)) / others
    };
    Spread::of((0..runs).map(|_| quadruple()).collect()).median
}

/// Regions of two operators, each of which is recomputed.
fn regions(runs: usize) -> Result<(), Box<dyn Error>> {
    let input = input(NUMBERS);
    let two = |value: &Tensor| value.sigmoid().tanh();
    let form = checkpoint::with().name("two");
    let plan = form.measure(|| two(&input))?.plan(u64::MAX, Solver::SqrtN)?;
    let steps = |form: checkpoint::With<'_>| {
        let output = (0..REGIONS).fold(input.shallow_clone(), |value, _| form.region(|| two(&value)));
        output.sum(Kind::Float).backward();
    };
    steps(form.plan(&plan));
    let took = ratio(runs, || steps(form.plan(&plan)), || steps(form.enabled(false)));
    let each = tch::no_grad(|| clock::seconds(|| (0..1000).for_each(|_| drop(two(&input))))) / 2000.0 * 1e6;
    let bar = verdict(took, 2.0);
    println!("{REGIONS} regions of two operators of {each:.1} us: {took:.2}x (bar: 2x): {bar}");
    Ok(())
}

/// The time that a region adds to its operators, whose results it all keeps.
fn recording(runs: usize) {
    let input = input(1);
    let form = checkpoint::with().name("chain").solver(Solver::KeepAll);
    let chain = || (0..OPERATORS).fold(input.shallow_clone(), |value, _| value.tanh());
    // Runs twice: the first run learns the costs, the second one makes the plan.
    (0..2).for_each(|_| form.region(chain).backward());
    let difference = || clock::seconds(|| drop(form.region(chain))) - clock::seconds(|| drop(chain()));
    #[expect(clippy::cast_precision_loss, reason = "a thousand")]
    let micros = Spread::of((0..runs).map(|_| difference()).collect()).median / OPERATORS as f64 * 1e6;
    println!("recording of an operator: {micros:.2} us (bar: 2 us): {}", verdict(micros, 2.0));
}

/// The peak of a step that keeps everything, beyond that of a plain one.
fn bytes() -> Result<(), Box<dyn Error>> {
    let input = input(NUMBERS);
    let net = || {
        (0..REGIONS).fold(input.shallow_clone(), |value, _| {
            checkpoint::cut();
            value.sigmoid() * value.tanh()
        })
    };
    let form = checkpoint::with().name("bytes");
    let all = form.measure(net)?.plan(u64::MAX, Solver::KeepAll)?;
    let [kept, plain] = [form.plan(&all), form.enabled(false)].map(|form| {
        form.region(net).sum(Kind::Float).backward();
        let allocated_bytes = cpu::allocated_bytes();
        cpu::reset_peak_allocated_bytes();
        form.region(net).sum(Kind::Float).backward();
        cpu::peak_allocated_bytes() - allocated_bytes
    });
    let word = if kept <= plain { "yes" } else { "no" };
    println!("bytes of a step that keeps all: {kept}, plain {plain} (bar: no more): {word}");
    Ok(())
}
