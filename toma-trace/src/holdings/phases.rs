//! Begins of backwards and intervals of optimizers in a trace.

use crate::tables::{Interval, Scope, ScopeKind, Storage, Trace};
use crate::tick::Tick;

/// Moments that distinguish activations and optimizer states from other storages, each kind in its order.
pub(super) struct Phases {
    backwards: Vec<Tick>,
    optimizers: Vec<Interval>,
    operators: Vec<Tick>,
}

impl Phases {
    pub(super) fn of(trace: &Trace) -> Self {
        let phases =
            || trace.scopes().map(|(_, scope)| scope).filter(|scope| scope.label.kind == ScopeKind::Phase);
        let of_backward = phases().filter(|scope| scope.label.name == "backward");
        let mut backwards: Vec<_> = of_backward.map(|scope| scope.interval.begin).collect();
        if backwards.is_empty() {
            backwards = by_nodes(trace);
        }
        Self {
            backwards,
            optimizers: phases().filter(|scope| is_optimizer(scope)).map(|scope| scope.interval).collect(),
            operators: trace.operators().map(|(_, operator)| operator.interval.begin).collect(),
        }
    }

    /// True if the storage was born in an optimizer phase and outlived it.
    pub(super) fn is_optimizer_state(&self, storage: &Storage) -> bool {
        let Some(birth) = storage.blocks[0].birth else { return false };
        let is_inside = |phase: &&Interval| phase.contains(birth.tick) && phase.thread == birth.thread;
        self.optimizers.iter().filter(is_inside).any(|phase| is_alive(storage, phase.end))
    }

    /// True if the storage was alive when a later backward began, or a later operator if there is no backward.
    pub(super) fn is_activation(&self, storage: &Storage) -> bool {
        let Some(birth) = storage.blocks[0].birth else { return false };
        let moments = if self.backwards.is_empty() { &self.operators } else { &self.backwards };
        storage.blocks.iter().any(|block| {
            let born = block.birth.map_or(birth.tick, |birth| birth.tick);
            let next = moments.partition_point(|moment| *moment <= born);
            moments.get(next).is_some_and(|moment| block.is_alive(*moment))
        })
    }
}

fn is_alive(storage: &Storage, at: Tick) -> bool {
    storage.blocks.iter().any(|block| block.is_alive(at))
}

fn is_optimizer(scope: &Scope) -> bool {
    scope.label.name.split(' ').next() == Some("optimizer")
}

/// Finds backwards without phases: each runs the nodes of its graph from the highest number down, so a new
/// backward begins where the number rises.
fn by_nodes(trace: &Trace) -> Vec<Tick> {
    let mut last = i64::MIN;
    let mut begins = Vec::new();
    for (_, scope) in trace.scopes().filter(|(_, scope)| scope.label.kind == ScopeKind::Node) {
        let number = scope.label.sequence().unwrap_or(0);
        // A node that adds a gradient to its variable has no number of its own.
        if number < 0 {
            continue;
        }
        if number > last {
            begins.push(scope.interval.begin);
        }
        last = number;
    }
    begins
}
