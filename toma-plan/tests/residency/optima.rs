//! Recorded steps against their exact optima.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use toma_plan::residency::{Eviction as _, Flow, Lru, NextEvent, Step, Terms, simulate, simulate_plan};

#[derive(Deserialize)]
pub(crate) struct Optimum {
    pub(crate) step: String,
    pub(crate) percent: u64,
    pub(crate) budget_bytes: u64,
    pub(crate) moved_bytes: u64,
    pub(crate) bound_bytes: u64,
}

fn text(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/residency/recorded");
    fs::read_to_string(folder.join(name).with_extension("json")).unwrap()
}

pub(crate) fn recorded(name: &str) -> Step {
    let step: Step = serde_json::from_str(&text(name)).unwrap();
    step.check().unwrap();
    step
}

pub(crate) fn optima() -> Vec<Optimum> {
    serde_json::from_str(&text("optima")).unwrap()
}

#[test]
fn table() {
    for optimum in optima() {
        let step = recorded(&optimum.step);
        let terms = Terms::bytes_alone(optimum.budget_bytes);
        let ratio = |bytes: u64| bytes as f64 / optimum.moved_bytes as f64;
        let [lru, next] = [simulate(&step, &terms, &mut Lru, 4), simulate(&step, &terms, &mut NextEvent, 4)]
            .map(|outcome| ratio(outcome.last().unwrap().bytes()));
        let start = std::time::Instant::now();
        let plan = Flow::default().plan(&step, &terms).unwrap();
        let taken = start.elapsed();
        let flow = simulate_plan(&step, &terms, &plan, 4);
        let flow = ratio(flow.last().unwrap().bytes());
        println!(
            "{:>12} {} lru {lru:.3} next {next:.3} flow {flow:.4} {taken:.1?}",
            optimum.step, optimum.percent
        );
    }
}

#[test]
fn times() {
    for optimum in optima() {
        for part in [0.25, 0.5] {
            let step = recorded(&optimum.step);
            let speed = optimum.moved_bytes as f64 / 2.0 / (part * step.seconds());
            let terms = Terms {
                in_bytes_per_second: speed,
                out_bytes_per_second: speed,
                ..Terms::bytes_alone(optimum.budget_bytes)
            };
            let ratio = |seconds: f64| seconds / step.seconds();
            let [lru, next] =
                [simulate(&step, &terms, &mut Lru, 4), simulate(&step, &terms, &mut NextEvent, 4)]
                    .map(|outcome| ratio(outcome.last().unwrap().seconds));
            let start = std::time::Instant::now();
            let plan = Flow::default().plan(&step, &terms).unwrap();
            let taken = start.elapsed();
            println!(
                "{:>12} {} {part} lru {lru:.3} next {next:.3} flow {:.4} {taken:.1?} {plan}",
                optimum.step,
                optimum.percent,
                ratio(plan.seconds())
            );
        }
    }
}

#[test]
fn large() {
    let step = crate::steps::layers(334);
    println!("{} operators {} storages peak {} least {} {:.1} s", step.operators.len(), step.storages.len(), step.peak_bytes() >> 20, step.least_budget().bytes >> 20, step.seconds());
    for percent in [80, 40, 20] {
        let terms = Terms::bytes_alone(step.peak_bytes() / 100 * percent);
        let start = std::time::Instant::now();
        let plan = Flow::default().plan(&step, &terms).unwrap();
        println!("{percent} {:.1?} {plan}", start.elapsed());
        let start = std::time::Instant::now();
        let next = simulate(&step, &terms, &mut NextEvent, 2).last().unwrap().bytes();
        println!("next {} {:.1?}", toma_trace::Size::of(next), start.elapsed());
        let speed = next as f64 / 2.0 / step.seconds() / 0.5;
        let terms = Terms { in_bytes_per_second: speed, out_bytes_per_second: speed, ..terms };
        let start = std::time::Instant::now();
        let plan = Flow::default().plan(&step, &terms).unwrap();
        println!("{percent} {:.1?} {plan}", start.elapsed());
    }
}
