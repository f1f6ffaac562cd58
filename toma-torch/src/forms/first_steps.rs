//! Room for what an optimizer allocates at its first step.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tch::Tensor;

use super::variables::Variables;
use crate::ffi::{Remembered, Use};
use crate::tensor::packed_bytes;

/// Numbers for each weight that are made room for: those of Adam, the most that an optimizer of tch keeps. Which
/// optimizer it is, tch does not tell.
const NUMBERS: u64 = 2;

/// Variables that have been stepped, of as many optimizers.
const KEPT: usize = 256;

static STEPPED: Mutex<VecDeque<Identity>> = Mutex::new(VecDeque::new());

/// The storage of the first of some variables, and the number of variables: tch gives optimizers no identity.
///
/// The weak reference keeps the number of a storage from being used again, also while an offloading manager has moved
/// its memory.
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
    /// Those that no step has been seen of.
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

/// Variables of which a first step is to be seen.
pub(super) struct Stepped(Option<Identity>);

impl Stepped {
    /// The step has been taken.
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
