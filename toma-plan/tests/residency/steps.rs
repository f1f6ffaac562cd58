//! Steps that are drawn.

use std::time::Duration;

use toma_plan::residency::{Operator, Step, Storage, Use};

use crate::Draw;

/// Any step of up to `most` operators and as many storages, with every kind of life.
pub(crate) fn any(draw: &mut Draw, most: usize) -> Step {
    let operators = 1 + draw.below(most);
    let mut storages = Vec::new();
    for _ in 0..=draw.below(most) {
        let bytes = 1 + draw.below(9) as u64;
        let birth = (!draw.one_in(2)).then(|| draw.below(operators));
        let death = match birth {
            None => draw.one_in(3).then(|| 1 + draw.below(operators)),
            // Of what is gone before its successor is made, or lives within the step.
            Some(birth) => match draw.below(5) {
                0 => None,
                1 => Some(draw.below(birth + 1)),
                _ => Some(birth + 1 + draw.below(operators - birth)),
            },
        };
        storages.push(Storage { bytes, birth, death, stays: draw.one_in(12) });
    }
    let mut step = Step { storages, operators: Vec::new() };
    for operator in 0..operators {
        let made = step.storages.iter().filter(|storage| storage.birth == Some(operator));
        let inside_bytes = made.map(|storage| storage.bytes).sum::<u64>() + draw.below(4) as u64;
        let duration = Duration::from_secs(draw.below(10) as u64);
        step.operators.push(Operator { uses: Vec::new(), inside_bytes, duration });
        for _ in 0..draw.below(4) {
            let storage = draw.below(step.storages.len());
            let uses = &mut step.operators[operator].uses;
            uses.push(Use { storage, writes: draw.one_in(4) });
            if step.check().is_err() {
                step.operators[operator].uses.pop();
            }
        }
    }
    step
}

/// Training of so many layers, each of ten operators forward, fourteen backward and six to update two weights: as a
/// transformer, with Adam.
pub(crate) fn layers(count: usize) -> Step {
    let mut draw = Draw(7);
    let mut step = Step::default();
    let mut at = 0;
    let mut live = Vec::new();
    let always = |step: &mut Step, bytes| {
        step.storages.push(Storage { bytes, birth: None, death: None, stays: false });
        step.storages.len() - 1
    };
    let weights: Vec<[usize; 6]> = (0..count).map(|_| [4, 8, 4, 8, 4, 8].map(|mib| always(&mut step, mib << 20))).collect();
    for layer in &weights {
        for operator in 0..10 {
            let made = step.storages.len();
            let bytes = (1 + draw.below(8) as u64) << 20;
            step.storages.push(Storage { bytes, birth: Some(at), death: None, stays: false });
            let uses = live.last().copied().into_iter().chain((operator % 5 == 2).then_some(layer[operator / 5]));
            step.operators.push(calls(uses.collect(), None, bytes, &mut draw));
            live.push(made);
            at += 1;
        }
    }
    let mut gradient = None;
    let mut updates = Vec::new();
    for layer in weights.iter().rev() {
        for operator in 0..14 {
            let made = step.storages.len();
            let is_weight = operator % 7 == 3;
            let bytes = if is_weight { step.storages[layer[operator / 7]].bytes } else { (1 + draw.below(8) as u64) << 20 };
            step.storages.push(Storage { bytes, birth: Some(at), death: None, stays: false });
            let saved = if operator % 14 < 10 { live.pop() } else { None };
            if let Some(saved) = saved {
                step.storages[saved].death = Some(at + 1);
            }
            let weight = (operator % 7 == 4).then_some(layer[operator / 7]);
            step.operators.push(calls(saved.into_iter().chain(gradient).chain(weight).collect(), None, bytes, &mut draw));
            if is_weight {
                updates.push((layer[operator / 7], made, [layer[2 + operator / 7], layer[4 + operator / 7]]));
            } else if let Some(before) = gradient.replace(made) {
                step.storages[before].death = Some(at + 1);
            }
            at += 1;
        }
    }
    if let Some(last) = gradient {
        step.storages[last].death = Some(at);
    }
    for (weight, gradient, [first, second]) in updates {
        for (uses, written) in [(vec![gradient, first], 1), (vec![gradient, second], 1), (vec![weight, first, second], 0)] {
            step.operators.push(calls(uses, Some(written), 1 << 20, &mut draw));
            at += 1;
        }
        step.storages[gradient].death = Some(at);
    }
    step.check().unwrap();
    step
}

fn calls(uses: Vec<usize>, written: Option<usize>, inside_bytes: u64, draw: &mut Draw) -> Operator {
    let used = |(at, storage)| Use { storage, writes: written == Some(at) };
    let duration = Duration::from_micros(50 + draw.below(400) as u64);
    Operator { uses: uses.into_iter().enumerate().map(used).collect(), inside_bytes, duration }
}
