//! What a program says of its tensors: variables, gradients, states of optimizers, labels.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use tch::Tensor;
use tch::nn::{VarStore, Variables};
use toma_trace::counting::{Living, Owner};
use toma_trace::holdings::Category;

use super::states::State;
use crate::ffi::{self, EventKind};

/// Names of storages, by where they begin.
///
/// Variables and their gradients can change their places, so these are looked up when names are asked for.
#[derive(Debug, Default)]
pub(super) struct Named {
    stores: Vec<Weak<Mutex<Variables>>>,
    /// The optimizers that have run a step to its end.
    optimizers: Mutex<HashSet<String>>,
}

/// What a block is, by its address and by what the recording in which it was born has answered for it: a later block
/// at the same address is another. States of optimizers outlive the recording that saw them begin.
static NOTED: LazyLock<Mutex<Notes>> = LazyLock::new(Mutex::default);

/// Names of what begins at an address.
pub(super) type ByAddress = HashMap<u64, (Category, String)>;

type Notes = HashMap<(u64, Owner), (Category, String)>;

/// When there are so many, those of blocks that are gone are dropped: they are of steps that are long over.
const MANY: usize = 1 << 16;

fn noted() -> MutexGuard<'static, Notes> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_alive(address: u64, owner: Owner) -> bool {
    ffi::owner_at(address) == owner
}

/// Forgets what was noted of blocks that are gone, or that no recording has told apart from later ones.
pub(super) fn forget() {
    noted().retain(|(address, owner), _| *owner != Owner(0) && is_alive(*address, *owner));
}

/// Forgets what was noted of blocks that are gone.
pub(super) fn forget_gone() {
    keep_living(&mut noted());
}

fn keep_living(notes: &mut Notes) {
    notes.retain(|(address, owner), _| is_alive(*address, *owner));
}

/// What was noted of the block that lives at an address.
pub(super) fn noted_at(address: u64, owner: Owner) -> Option<(Category, String)> {
    noted().get(&(address, owner)).cloned()
}

/// What was noted of a block that is no more, for the next block of its storage.
pub(super) fn taken(address: u64, owner: Owner) -> Option<(Category, String)> {
    noted().remove(&(address, owner))
}

/// The next block of a storage.
pub(super) fn noted_again(address: u64, owner: Owner, is: (Category, String)) {
    noted().insert((address, owner), is);
}

/// What was noted of a block.
pub(super) struct Noted {
    pub(super) address: u64,
    pub(super) owner: Owner,
    pub(super) category: Category,
    pub(super) name: String,
}

/// What was noted of all blocks.
pub(super) fn all_noted() -> Vec<Noted> {
    let noted = noted();
    let of = |(&(address, owner), (category, name)): (&(u64, Owner), &(Category, String))| Noted {
        address,
        owner,
        category: *category,
        name: name.clone(),
    };
    noted.iter().map(of).collect()
}

fn note(address: u64, category: Category, name: impl FnOnce() -> String) {
    let mut noted = noted();
    if noted.len() >= MANY {
        keep_living(&mut noted);
    }
    noted.entry((address, ffi::owner_at(address))).or_insert_with(|| (category, name()));
}

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
