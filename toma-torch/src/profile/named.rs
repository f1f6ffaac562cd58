//! What a program says of its tensors: variables, gradients, states of optimizers, labels.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use tch::Tensor;
use tch::nn::{VarStore, Variables};
use toma_trace::counting::{Living, Owner};
use toma_trace::holdings::Category;

use super::states::State;
use crate::ffi::{self, EventKind};
use crate::notes::{is_alive, note, noted_at};

/// Names of storages, by where they begin.
///
/// Variables and their gradients can change their places, so these are looked up when names are asked for.
#[derive(Debug, Default)]
pub(super) struct Named {
    stores: Vec<Weak<Mutex<Variables>>>,
    /// The optimizers that have run a step to its end.
    optimizers: Mutex<HashSet<String>>,
}

/// Names of what begins at an address.
pub(super) type ByAddress = HashMap<u64, (Category, String)>;

impl Named {
    /// Variables that a store has now or later, as long as it lives. While the program has locked it they are not found.
    pub(super) fn variables(&mut self, store: &VarStore) {
        self.stores.push(Arc::downgrade(&store.variables_));
    }

    fn optimizers(&self) -> MutexGuard<'_, HashSet<String>> {
        self.optimizers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an optimizer has run a step to its end.
    pub(super) fn has_stepped(&self, optimizer: &str) -> bool {
        self.optimizers().contains(optimizer)
    }

    /// An optimizer has run a step to its end.
    pub(super) fn note_step(&self, optimizer: &str) {
        self.optimizers().insert(optimizer.to_owned());
    }

    /// Notes where variables and gradients are now: they may be gone when their names are asked for.
    pub(super) fn note_variables(&self) {
        self.each_variable(|name, variable| {
            for address in ffi::addresses(variable) {
                note(address, category(variable), || name.to_owned());
            }
            for address in ffi::gradient_addresses(variable) {
                note(address, Category::Gradient, || gradient(name));
            }
        });
    }

    /// Notes what an optimizer has made in a step and kept: each is a state of what it was made from.
    pub(super) fn note_states(&self, optimizer: &str, recording: &ffi::Recording) {
        let variables = self.now();
        let mut state = State::new(optimizer);
        let mut made = Vec::new();
        let _ = recording.read(|event| {
            match event.kind {
                EventKind::OperatorBegins => state.begins(event.name),
                EventKind::Reads => state.reads(variables.get(&event.address).map(|(_, name)| name.as_str())),
                EventKind::Makes => made.extend(state.makes().map(|name| (event.address, name))),
                _ => {}
            }
            Ok(())
        });
        for (address, name) in made {
            // What is gone has no owner.
            if !is_alive(address, Owner(0)) {
                note(address, Category::OptimizerState, || name);
            }
        }
    }

    /// Every variable and its gradient, where they are now.
    pub(super) fn now(&self) -> ByAddress {
        let mut names = ByAddress::new();
        let mut name = |address, category, name: String| {
            let said = names.entry(address).or_insert_with(|| (category, name.clone()));
            // Of tied variables the first by name stays, because a store knows no order.
            if (category, &name) < (said.0, &said.1) {
                *said = (category, name);
            }
        };
        self.each_variable(|variable, tensor| {
            ffi::addresses(tensor).for_each(|address| name(address, category(tensor), variable.to_owned()));
            let gradients = ffi::gradient_addresses(tensor);
            gradients.for_each(|address| name(address, Category::Gradient, gradient(variable)));
        });
        names
    }

    fn each_variable(&self, mut body: impl FnMut(&str, &Tensor)) {
        for store in self.stores.iter().filter_map(Weak::upgrade) {
            let variables = match store.try_lock() {
                Ok(variables) => variables,
                Err(TryLockError::Poisoned(variables)) => variables.into_inner(),
                // Perhaps by this very thread.
                Err(TryLockError::WouldBlock) => continue,
            };
            variables.named_variables.iter().for_each(|(name, tensor)| body(name, tensor));
        }
    }
}

/// The memory of a tensor has this name.
pub(super) fn label(name: &str, tensor: &Tensor) {
    ffi::addresses(tensor).for_each(|address| note(address, Category::Input, || name.to_owned()));
}

/// What is known of a block that lives; `now` are the variables.
pub(super) fn of_block(now: &ByAddress, block: &Living) -> Option<(Category, String)> {
    now.get(&block.address).cloned().or_else(|| noted_at(block.address, block.owner))
}

fn category(variable: &Tensor) -> Category {
    if variable.requires_grad() { Category::Parameter } else { Category::Buffer }
}

fn gradient(variable: &str) -> String {
    format!("{variable}.grad")
}
