//! Queries of other modules about evicted storages.

use tch::Tensor;

use super::registry;
use crate::ffi::{Remembered, Use};

/// Runs `look` while no storage of any device moves, so that its observations of several storages are consistent.
///
/// `look` may call no operator and allocate nothing on a device.
pub(crate) fn unmoved<T>(look: impl FnOnce() -> T) -> T {
    let registered = registry::all();
    let tables: Vec<_> = registered.books.iter().map(|books| books.table()).collect();
    let seen = look();
    drop(tables);
    seen
}

/// Bytes of a tensor's memory that are not on its device.
pub(crate) fn evicted_bytes(tensor: &Tensor) -> u64 {
    let is_evicted =
        |storage: &Use<'_>| Remembered::new(storage).keep().is_some_and(|kept| kept.is_evicted());
    Use::of(tensor).filter(is_evicted).map(|storage| storage.bytes).sum()
}
