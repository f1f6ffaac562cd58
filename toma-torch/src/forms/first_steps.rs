//! Room for the state that an optimizer allocates at its first step.

use std::cell::Cell;
use std::sync::Arc;

use tch::Tensor;

use super::variables::Variables;
use crate::ffi::{Remembered, Use};
use crate::predict::Recent;
use crate::tensor::packed_bytes;

/// Numbers of state for each weight that room is left for: those of Adam, the most that an optimizer of tch keeps. tch
/// does not reveal which optimizer it is.
const NUMBERS: u64 = 2;

/// Optimizers that have taken a step.
static STEPPED: Recent<Identity, Arc<Remembered>> = Recent::new();

/// Identity of an optimizer, which tch does not give: the storage of its first variable, and the number of variables.
type Identity = (u64, usize);

/// An optimizer that has taken no step yet, with a weak reference to the storage of its first variable. It keeps the
/// number of the storage from being used again, also while an offload manager has moved its memory.
type Unstepped = (Identity, Arc<Remembered>);

/// Returns `None` where the first variable has no storage.
fn identified(trained: &[Tensor]) -> Option<Unstepped> {
    let storage = Use::of(trained.first()?).next()?;
    Some(((storage.id(), trained.len()), Arc::new(Remembered::new(&storage))))
}

/// Variables whose optimizer may not have taken a step yet.
pub(super) struct FirstSteps<'a, V> {
    variables: &'a V,
    /// The variables if no step of them has been observed.
    new: Cell<Option<Unstepped>>,
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
        let new = identified(trained).filter(|(identity, _)| STEPPED.of(identity).is_none());
        if new.is_none() {
            return 0;
        }
        self.new.set(new);
        let bytes = |weight| u64::try_from(packed_bytes(weight)).unwrap_or(u64::MAX);
        trained.iter().map(bytes).sum::<u64>().saturating_mul(NUMBERS)
    }
}

/// Variables whose first step is to be recorded.
pub(super) struct Stepped(Option<Unstepped>);

impl Stepped {
    /// Records that the step has been taken.
    pub(super) fn remember(self) {
        let Some((identity, first)) = self.0 else { return };
        STEPPED.retain(|_, first| !first.is_gone());
        STEPPED.keep(identity, first);
    }
}
