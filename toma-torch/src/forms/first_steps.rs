//! Room for the state that an optimizer allocates at its first step.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tch::Tensor;

use super::variables::Variables;
use crate::ffi::{Remembered, Use};
use crate::tensor::packed_bytes;

/// Numbers of state for each weight that room is left for: those of Adam, the most that an optimizer of tch keeps. tch
/// does not reveal which optimizer it is.
const NUMBERS: u64 = 2;

/// Most optimizers whose steps are remembered.
const KEPT: usize = 256;

static STEPPED: Mutex<VecDeque<Identity>> = Mutex::new(VecDeque::new());

/// Identity of an optimizer, which tch does not give: the storage of its first variable, and the number of variables.
///
/// The weak reference keeps the number of a storage from being used again, also while an offload manager has moved its
/// memory.
struct Identity {
    first: Remembered,
    id: u64,
    count: usize,
}

impl Identity {
    /// `None` where the first variable has no storage.
    fn of(trained: &[Tensor]) -> Option<Self> {
        let storage = Use::of(trained.first()?).next()?;
        Some(Self { first: Remembered::new(&storage), id: storage.id(), count: trained.len() })
    }

    fn is(&self, other: &Self) -> bool {
        (self.id, self.count) == (other.id, other.count)
    }
}

/// Variables whose optimizer may not have taken a step yet.
pub(super) struct FirstSteps<'a, V> {
    variables: &'a V,
    /// The variables if no step of them has been observed.
    new: Cell<Option<Identity>>,
}

impl<'a, V: Variables> FirstSteps<'a, V> {
    pub(super) fn of(variables: &'a V) -> Self {
        Self { variables, new: Cell::new(None) }
    }

    pub(super) fn end(self) -> Stepped {
        Stepped(self.new.take())
    }
}

impl<V: Variables> Variables for FirstSteps<'_, V> {
    fn trainable_variables(&self) -> Vec<Tensor> {
        self.variables.trainable_variables()
    }

    fn room_bytes(&self, trained: &[Tensor]) -> u64 {
        let Some(identity) = Identity::of(trained) else { return 0 };
        let stepped = STEPPED.lock().unwrap_or_else(PoisonError::into_inner);
        if stepped.iter().any(|known| known.is(&identity)) {
            return 0;
        }
        self.new.set(Some(identity));
        let bytes = |weight| u64::try_from(packed_bytes(weight)).unwrap_or(u64::MAX);
        trained.iter().map(bytes).sum::<u64>().saturating_mul(NUMBERS)
    }
}

/// Variables whose first step is to be recorded.
pub(super) struct Stepped(Option<Identity>);

impl Stepped {
    /// Records that the step has been taken.
    pub(super) fn remember(self) {
        let Some(identity) = self.0 else { return };
        let mut stepped = STEPPED.lock().unwrap_or_else(PoisonError::into_inner);
        stepped.retain(|known| !known.first.is_gone());
        if stepped.len() == KEPT {
            stepped.pop_front();
        }
        stepped.push_back(identity);
    }
}
