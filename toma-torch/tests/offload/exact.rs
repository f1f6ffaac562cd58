//! Results equal those of the resident run bit for bit, in less memory.

use std::thread;
use std::time::Duration;

use crate::ground;
use tch::TchError;
use toma_torch::offload::{Eviction, Flow, Genoa, Lru, NextEvent};

use crate::kit::{Learned, Rule, alone, entered, train, try_train};
use crate::nets::{NETS, Net};
use crate::rounds::rounds;

const STEPS: usize = 4;

/// Trains without a manager, and returns the results and the peak bytes.
fn resident(net: fn() -> Net, rule: Rule) -> (Learned, u64) {
    let before = ground::allocated_bytes();
    ground::reset_peak_allocated_bytes();
    let learned = train(&net(), rule, STEPS);
    (learned, ground::peak_allocated_bytes() - before)
}

/// Waits until the threads that moved storages for an earlier manager have released them, and returns the bytes.
fn settled(base: u64) -> u64 {
    for _ in 0..10_000 {
        if ground::allocated_bytes() <= base {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    ground::allocated_bytes()
}

/// Trains with a budget of `bytes` beyond those allocated at first, and returns the results and the peak bytes.
fn within(
    base: u64,
    bytes: u64,
    eviction: impl Eviction + 'static,
    net: fn() -> Net,
    rule: Rule,
) -> (Result<Learned, TchError>, u64) {
    let before = settled(base);
    let (manager, _entered) = entered(before.saturating_add(bytes), eviction);
    ground::reset_peak_allocated_bytes();
    let net = net();
    let learned = try_train(&net, rule, STEPS);
    println!("{} {rule:?} {bytes} bytes: {}", net.name, manager.report());
    (learned, ground::peak_allocated_bytes() - before)
}

/// Genoa's peak is the least budget: every eviction runs with it, and none with a byte less.
fn is_exact(net: fn() -> Net, rule: Rule) {
    let (expected, peak) = resident(net, rule);
    let base = ground::allocated_bytes();
    let (learned, least) = within(base, u64::MAX / 2, Genoa, net, rule);
    assert_eq!(learned.unwrap(), expected);
    for bytes in [least, least.max(peak * 2 / 5)].into_iter().take(rounds(1, 2)) {
        let evictions: [Box<dyn Eviction>; 3] =
            [Box::new(Lru), Box::new(NextEvent), Box::new(Flow::default())];
        for eviction in evictions {
            let name = eviction.name();
            let (learned, most) = within(base, bytes, eviction, net, rule);
            assert_eq!(learned.unwrap(), expected, "{name}, {bytes} of {peak} bytes");
            assert!(most <= bytes, "{name}, {most} of {bytes}");
        }
    }
    let failed = within(base, least - 1, Lru, net, rule).0.unwrap_err().to_string();
    assert!(failed.contains("out of memory") && failed.contains("aten::"), "{failed}");
}

macro_rules! exact {
    ($($name:ident, $at:literal, $rule:expr;)*) => {
        $(#[test]
        fn $name() {
            let _alone = alone();
            is_exact(NETS[$at], $rule);
        })*
    };
}

exact! {
    a_perceptron_with_adam, 0, Rule::Adam;
    a_transformer_with_dropout, 1, Rule::Sgd;
    a_residual_net, 2, Rule::Sgd;
    convolutions_with_batch_norm, 3, Rule::Adam;
    a_u_net, 4, Rule::Sgd;
    a_recurrent_net, 5, Rule::Adam;
}
