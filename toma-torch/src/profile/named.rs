//! Names that a program gives its tensors: variables, gradients, states of optimizers, labels.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use tch::Tensor;
use tch::nn::{VarStore, Variables};
use toma_trace::counting::{Living, Owner};
use toma_trace::holdings::Category;
use toma_trace::{Access, Contradiction, Event, Reader, ThreadId};

use super::states::StateNames;
use crate::ffi;
use crate::notes::{note, noted_at};

/// Sources of names: variables of stores, and optimizers that have stepped.
///
/// Variables and their gradients can move, so they are looked up when names are needed.
#[derive(Debug, Default)]
pub(super) struct Named {
    stores: Vec<Weak<Mutex<Variables>>>,
    /// Optimizers that have completed a step.
    optimizers: Mutex<HashSet<String>>,
}

/// Names by the address of a storage.
pub(super) type ByAddress = HashMap<u64, (Category, String)>;

impl Named {
    /// Adds the variables that a store has now or later, as long as it lives. They are not found while the program
    /// locks it.
    pub(super) fn variables(&mut self, store: &VarStore) {
        self.stores.push(Arc::downgrade(&store.variables_));
    }

    fn optimizers(&self) -> MutexGuard<'_, HashSet<String>> {
        self.optimizers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the optimizer of this name has completed a step.
    pub(super) fn has_stepped(&self, optimizer: &str) -> bool {
        self.optimizers().contains(optimizer)
    }

    /// Records that an optimizer has completed a step.
    pub(super) fn note_step(&self, optimizer: &str) {
        self.optimizers().insert(optimizer.to_owned());
    }

    /// Notes the current addresses of variables and gradients, which may be gone when their names are needed.
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

    /// Notes the tensors that an optimizer has made in a step and kept, as states of the variables they were made from.
    pub(super) fn note_states(&self, optimizer: &str, recording: &ffi::Recording) {
        let mut states =
            StateReader { names: self.now(), state: StateNames::new(optimizer), made: Vec::new() };
        let _ = recording.read(&mut states);
        for (address, name) in states.made {
            // The block is still alive.
            if ffi::owner_at(address) != Owner(0) {
                note(address, Category::OptimizerState, || name);
            }
        }
    }

    /// Returns the names of all variables and gradients, by their current addresses.
    pub(super) fn now(&self) -> ByAddress {
        let mut names = ByAddress::new();
        let mut name = |address, category, name: String| {
            let entry = names.entry(address).or_insert_with(|| (category, name.clone()));
            // Tied variables get the smallest of their names, because a store has no order.
            if (category, &name) < (entry.0, &entry.1) {
                *entry = (category, name);
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
                // Perhaps locked by this very thread.
                Err(TryLockError::WouldBlock) => continue,
            };
            variables.named_variables.iter().for_each(|(name, tensor)| body(name, tensor));
        }
    }
}

/// Finds the states of an optimizer among the tensors that operators make.
struct StateReader {
    names: ByAddress,
    state: StateNames,
    /// Address and name of each state.
    made: Vec<(u64, String)>,
}

impl Reader for StateReader {
    fn read(&mut self, _: ThreadId, event: &Event<'_>) -> Result<(), Contradiction> {
        match event {
            Event::OperatorBegins { name, .. } => self.state.begins(name),
            Event::Uses { access: Access::Reads, memory, .. } => {
                self.state.reads(self.names.get(&memory.address).map(|(_, name)| name.as_str()));
            }
            Event::Uses { access: Access::Makes, memory, .. } => {
                self.made.extend(self.state.makes().map(|name| (memory.address, name)));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Names the memory of a tensor.
pub(super) fn label(name: &str, tensor: &Tensor) {
    ffi::addresses(tensor).for_each(|address| note(address, Category::Input, || name.to_owned()));
}

/// Returns the category and name of a live block; `now` are the names of variables.
pub(super) fn of_block(now: &ByAddress, block: &Living) -> Option<(Category, String)> {
    now.get(&block.address).cloned().or_else(|| noted_at(block.address, block.owner))
}

fn category(variable: &Tensor) -> Category {
    if variable.requires_grad() { Category::Parameter } else { Category::Buffer }
}

fn gradient(variable: &str) -> String {
    format!("{variable}.grad")
}
