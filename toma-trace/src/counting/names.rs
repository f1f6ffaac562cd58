//! Names of operators and phases, as numbers that fit into an event.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A name among all that any recording of this process has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub(super) u32);

#[derive(Default)]
struct NameTable {
    numbers: HashMap<&'static str, NameId>,
    texts: Vec<&'static str>,
}

static NAMES: LazyLock<Mutex<NameTable>> = LazyLock::new(Mutex::default);

/// Returns the number of a name, which is valid for the whole process. Callers cache it, because each name is kept
/// forever.
///
/// Returns [`NONE`](NameId::NONE) if there is no memory for the name: allocators call this when they have none.
pub fn name(text: &str) -> NameId {
    let mut names = names();
    let known = names.numbers.get(text).copied();
    known.or_else(|| names.add(text)).unwrap_or(NameId::NONE)
}

impl NameTable {
    fn add(&mut self, text: &str) -> Option<NameId> {
        self.texts.try_reserve(1).ok()?;
        self.numbers.try_reserve(1).ok()?;
        let mut copy = String::new();
        copy.try_reserve_exact(text.len()).ok()?;
        copy.push_str(text);
        let text: &'static str = copy.leak();
        let number = NameId(u32::try_from(self.texts.len()).ok()?);
        self.texts.push(text);
        self.numbers.insert(text, number);
        Some(number)
    }
}

fn names() -> MutexGuard<'static, NameTable> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NameId {
    /// No operator.
    pub const NONE: Self = Self(u32::MAX);

    /// Restores a number that another language has kept.
    #[must_use]
    pub const fn of_number(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number, for another language to keep.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    pub(super) fn text(self) -> Option<&'static str> {
        names().texts.get(self.0 as usize).copied()
    }
}
