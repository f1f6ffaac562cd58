//! Random steps.

use std::time::Duration;

use toma_plan::residency::{Operator, Step, Storage, Use};

use crate::Draw;

/// Returns a step of up to `most` operators and as many storages, with every kind of lifetime.
pub(crate) fn any(draw: &mut Draw, most: usize) -> Step {
    let operators = 1 + draw.below(most);
    let mut storages = Vec::new();
    for _ in 0..=draw.below(most) {
        let bytes = 1 + draw.below(9) as u64;
        let birth = (!draw.one_in(2)).then(|| draw.below(operators));
        let death = match birth {
            None => draw.one_in(3).then(|| 1 + draw.below(operators)),
            // Ends in the next step before its successor is made, or within this step.
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
