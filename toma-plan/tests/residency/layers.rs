//! A large step, shared with the benchmark of plans.

use std::time::Duration;

use toma_plan::residency::{Operator, Step, Storage, Use};

use crate::draw::Draw;

const MIB: u64 = 1 << 20;

/// Forward operators of a layer.
const FORWARD: usize = 10;
const BACKWARD: usize = 14;

/// A training step of `count` layers with two weights each, as of a transformer with Adam: 30 operators a layer.
pub(crate) fn layers(count: usize) -> Step {
    let mut net = Net { step: Step::default(), draw: Draw(7) };
    let weights: Vec<_> =
        (0..2 * count).map(|at| Weight::new(&mut net, (4 + 4 * (at as u64 % 2)) * MIB)).collect();
    let mut saved = Vec::new();
    for layer in weights.chunks(2) {
        for at in 0..FORWARD {
            let weight = (at % 5 == 2).then_some(layer[at / 5].value);
            let made = net.makes(saved.last().copied().into_iter().chain(weight), None);
            saved.push(made);
        }
    }
    let (mut gradient, mut updates) = (None, Vec::new());
    for layer in weights.chunks(2).rev() {
        for at in 0..BACKWARD {
            let used = if at < FORWARD { saved.pop() } else { None };
            let weight = layer[at / 7];
            if at % 7 == 3 {
                let bytes = net.step.storages[weight.value].bytes;
                updates.push((weight, net.makes(used.into_iter().chain(gradient), Some(bytes))));
            } else {
                let value = (at % 7 == 4).then_some(weight.value);
                let made = net.makes(used.into_iter().chain(gradient).chain(value), None);
                if let Some(before) = gradient.replace(made) {
                    net.ends(before);
                }
            }
            if let Some(used) = used {
                net.ends(used);
            }
        }
    }
    if let Some(last) = gradient {
        net.ends(last);
    }
    for (weight, gradient) in updates {
        net.calls([weight.first, gradient], 1);
        net.calls([weight.second, gradient], 1);
        net.calls([weight.value, weight.first, weight.second], 1);
        net.ends(gradient);
    }
    net.step.check().unwrap();
    net.step
}

/// A parameter with its two moments.
#[derive(Clone, Copy)]
struct Weight {
    value: usize,
    first: usize,
    second: usize,
}

impl Weight {
    fn new(net: &mut Net, bytes: u64) -> Self {
        let [value, first, second] = [(); 3].map(|()| net.stores(bytes, None));
        Self { value, first, second }
    }
}

struct Net {
    step: Step,
    draw: Draw,
}

impl Net {
    fn stores(&mut self, bytes: u64, birth: Option<usize>) -> usize {
        self.step.storages.push(Storage { bytes, birth, death: None, stays: false });
        self.step.storages.len() - 1
    }

    /// Ends a storage before the next operator.
    fn ends(&mut self, storage: usize) {
        self.step.storages[storage].death = Some(self.step.operators.len());
    }

    /// Records an operator that makes a storage, of random bytes if none are given.
    fn makes(&mut self, uses: impl Iterator<Item = usize>, bytes: Option<u64>) -> usize {
        let bytes = bytes.unwrap_or((1 + self.draw.below(8) as u64) * MIB);
        let made = self.stores(bytes, Some(self.step.operators.len()));
        self.calls(uses, 0);
        if let Some(operator) = self.step.operators.last_mut() {
            operator.inside_bytes += bytes;
        }
        made
    }

    /// Records an operator that writes the first `written` storages it uses.
    fn calls(&mut self, uses: impl IntoIterator<Item = usize>, written: usize) {
        let uses = uses.into_iter().enumerate().map(|(at, storage)| Use { storage, writes: at < written });
        let duration = Duration::from_micros(50 + self.draw.below(400) as u64);
        let operator = Operator { uses: uses.collect(), inside_bytes: MIB, duration };
        self.step.operators.push(operator);
    }
}
