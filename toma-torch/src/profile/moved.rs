//! What recordings know of a storage while it is off its device.

use std::sync::Arc;

use toma_trace::counting::{self, Owner};
use toma_trace::holdings::Category;

use super::named;

/// Whose the memory of a storage was, and what it was called. Names follow storages, not their blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    owner: Owner,
    noted: Option<Arc<(Category, String)>>,
}

impl Story {
    /// Frees the memory of a storage that is away from now on.
    pub(crate) fn leaves(free: impl FnOnce()) -> Self {
        let ((), block) = counting::moves(Owner::default(), free);
        Self { owner: block.owner, noted: named::taken(block.address, block.before).map(Arc::new) }
    }

    /// Makes the memory of a storage that comes back.
    pub(crate) fn returns<T>(&self, make: impl FnOnce() -> T) -> T {
        let (returned, block) = counting::moves(self.owner, make);
        if let Some(noted) = self.noted.as_ref().filter(|_| block.address != 0) {
            named::noted_again(block.address, block.owner, (**noted).clone());
        }
        returned
    }
}
