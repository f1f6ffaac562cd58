//! An entry, for people and programs that inspect a cache.

use std::fmt;

use super::{Callers, Key, Remembered};
use crate::text::bytes;

/// One entry of a cache, for inspection.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, classify::OutOfMemory, execute};
///
/// let sizes = GlobalCache::new();
/// execute::with::<GlobalCache>().cache(&sizes).name("resize").range(0..256, 256, |start, end| {
///     if end - start > 100 { Err(OutOfMemory::new(None)) } else { Ok(()) }
/// })?;
/// assert!(sizes.entries()[0].to_string().starts_with("resize: size 64, called at "));
/// # Ok::<(), OutOfMemory>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of the call.
    pub name: String,
    /// The key that distinguishes it from other entries of the same name.
    pub key: Key,
    /// The functions above the call, if they are part of the key.
    pub callers: Callers,
    /// The evidence.
    pub remembered: Remembered,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Remembered { settled, free_bytes, .. } = &self.remembered;
        write!(f, "{}: size {settled}", self.name)?;
        if let Some(free_bytes) = free_bytes {
            write!(f, " with {} free", bytes(free_bytes))?;
        }
        write!(f, ", {}", self.key)?;
        if self.callers.is_empty() { Ok(()) } else { write!(f, ", in {}", self.callers) }
    }
}
