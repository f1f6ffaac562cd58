//! Names of blocks, which follow a storage from one block to the next.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use toma_trace::counting::{self, Owner};
use toma_trace::holdings::Category;

use crate::ffi;

/// Category and name of each block, by its address and by the owner that its recording gave it at birth, so that a
/// later block at the same address has another key. States of optimizers outlive the recording that saw them begin.
static NOTED: LazyLock<Mutex<Notes>> = LazyLock::new(Mutex::default);

type Notes = HashMap<(u64, Owner), (Category, String)>;

/// Number of notes at which those of freed blocks are dropped: they belong to steps that are long over.
const MANY: usize = 1 << 16;

fn noted() -> MutexGuard<'static, Notes> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_alive(address: u64, owner: Owner) -> bool {
    ffi::owner_at(address) == owner
}

/// Drops the notes of blocks that are gone, or that no recording distinguishes from later ones.
pub(crate) fn forget() {
    noted().retain(|(address, owner), _| *owner != Owner(0) && is_alive(*address, *owner));
}

/// Drops the notes of blocks that are gone.
pub(crate) fn forget_gone() {
    keep_living(&mut noted());
}

fn keep_living(notes: &mut Notes) {
    notes.retain(|(address, owner), _| is_alive(*address, *owner));
}

/// Returns the note of the block that lives at an address.
pub(crate) fn noted_at(address: u64, owner: Owner) -> Option<(Category, String)> {
    noted().get(&(address, owner)).cloned()
}

/// Category and name of a block.
pub(crate) struct Noted {
    pub(crate) address: u64,
    pub(crate) owner: Owner,
    pub(crate) category: Category,
    pub(crate) name: String,
}

/// Returns the notes of all blocks.
pub(crate) fn all_noted() -> Vec<Noted> {
    let noted = noted();
    let of = |(&(address, owner), (category, name)): (&(u64, Owner), &(Category, String))| Noted {
        address,
        owner,
        category: *category,
        name: name.clone(),
    };
    noted.iter().map(of).collect()
}

pub(crate) fn note(address: u64, category: Category, name: impl FnOnce() -> String) {
    let mut noted = noted();
    if noted.len() >= MANY {
        keep_living(&mut noted);
    }
    noted.entry((address, ffi::owner_at(address))).or_insert_with(|| (category, name()));
}

/// Owner and note of an evicted storage. Names follow storages, not their blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct StorageNote {
    owner: Owner,
    noted: Option<Arc<(Category, String)>>,
}

impl StorageNote {
    /// Runs `free`, which frees the memory of a storage that is evicted, and keeps its note.
    pub(crate) fn on_eviction(free: impl FnOnce()) -> Self {
        let ((), block) = counting::moves(Owner::default(), free);
        Self { owner: block.owner, noted: taken(block.address, block.before).map(Arc::new) }
    }

    /// Runs `make`, which allocates the memory of a storage that is fetched, and gives its note to the new block.
    pub(crate) fn on_fetch<T>(&self, make: impl FnOnce() -> T) -> T {
        let (returned, block) = counting::moves(self.owner, make);
        if let Some(noted) = self.noted.as_ref().filter(|_| block.address != 0) {
            self::noted().insert((block.address, block.owner), (**noted).clone());
        }
        returned
    }
}

/// Removes the note of a freed block.
fn taken(address: u64, owner: Owner) -> Option<(Category, String)> {
    noted().remove(&(address, owner))
}
