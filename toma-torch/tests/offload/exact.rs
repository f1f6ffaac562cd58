//! Bit for bit what the resident run computes, in less memory.

use toma_torch::cpu;
use toma_torch::offload::{Eviction, Genoa, Lru, NextEvent};

use crate::kit::{Learned, Rule, alone, entered, train};
use crate::nets::{NETS, Net};

const STEPS: usize = 3;

/// What is learned without a manager, and the most bytes it takes.
fn resident(net: fn() -> Net, rule: Rule) -> (Learned, u64) {
    let before = cpu::allocated_bytes();
    cpu::reset_peak_allocated_bytes();
    let learned = train(&net(), rule, STEPS);
    (learned, cpu::peak_allocated_bytes() - before)
}

fn evictions() -> [Box<dyn Fn() -> Box<dyn Eviction>>; 3] {
    [Box::new(|| Box::new(Genoa)), Box::new(|| Box::new(Lru)), Box::new(|| Box::new(NextEvent))]
}

#[test]
fn every_net_learns_the_same_in_less_memory() {
    let _alone = alone();
    for net in NETS {
        for rule in [Rule::Sgd, Rule::Adam] {
            let (expected, peak) = resident(net, rule);
            for percent in [100, 60, 40] {
                for eviction in evictions() {
                    let before = cpu::allocated_bytes();
                    let (manager, _entered) = entered(before + peak * percent / 100, eviction());
                    let net = net();
                    cpu::reset_peak_allocated_bytes();
                    let learned = train(&net, rule, STEPS);
                    let name = net.name;
                    assert_eq!(learned, expected, "{name}, {rule:?}, {percent} %");
                    assert!(cpu::peak_allocated_bytes() - before <= peak * percent / 100, "{name}");
                    println!("{name} {rule:?} {percent} %: {}", manager.report());
                }
            }
        }
    }
}
