//! The plan that needs the least bytes.

use super::recurrence::{Branch, Choice, Recurrence};
use super::{Action, Costs};

/// Least bytes of a state and the choice that reaches them; among several choices the fastest one seen.
#[derive(Clone, Copy, Debug)]
struct Least {
    bytes: u64,
    seconds: f64,
    choice: Choice,
}

/// Returns the least bytes among the plans of the recurrence, and actions that need no more.
pub(super) fn least(costs: &Costs) -> (u64, Vec<Action>) {
    let recurrence = Recurrence::new(costs);
    let count = recurrence.count();
    // Indexed by start, then by length.
    let mut states: Vec<Vec<Least>> = vec![Vec::new(); count];
    for start in (0..count).rev() {
        for last in start..count {
            let branches = recurrence.saves(start, last).chain(recurrence.splits(start, last));
            let all = branches.map(|branch| join(&states, branch, start, last));
            let least = all.min_by(|a, b| (a.bytes.cmp(&b.bytes)).then(a.seconds.total_cmp(&b.seconds)));
            states[start].push(least.expect("a stage can be saved"));
        }
    }
    let actions = recurrence.actions((), |start, last, ()| (states[start][last - start].choice, ()));
    (states[0][count - 1].bytes, actions)
}

fn join(states: &[Vec<Least>], branch: Branch, start: usize, last: usize) -> Least {
    let Branch { choice, seconds, needs_bytes, held_bytes } = branch;
    let (bytes, after) = match choice {
        Choice::Save(_) if start == last => return Least { bytes: needs_bytes, seconds, choice },
        Choice::Save(_) => (0, states[start + 1][last - start - 1]),
        Choice::Split(at) => (states[start][at - 1 - start].bytes, states[at][last - at]),
    };
    let before = if let Choice::Split(at) = choice { states[start][at - 1 - start].seconds } else { 0.0 };
    let bytes = bytes.max(needs_bytes).max(held_bytes + after.bytes);
    Least { bytes, seconds: seconds + before + after.seconds, choice }
}
