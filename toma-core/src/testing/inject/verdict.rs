//! The failure, if any, that is injected into one attempt.

use crate::classify::Class;

/// The failure, if any, that is injected into one attempt.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::testing::inject::{self, Verdict};
/// use toma::{NoCache, execute};
///
/// // The body runs, its value is dropped, and it runs again.
/// let _injection = inject::script([Verdict::OUT_OF_MEMORY.after_body()]);
/// let mut sizes = Vec::new();
/// execute::with::<NoCache>().batch(8, |size| sizes.push(size));
/// assert_eq!(sizes, [8, 4]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict(pub(super) Option<Injected>);

/// A failure that an attempt is to meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Injected {
    /// True if the body runs before the failure; its value is dropped.
    pub(crate) after_body: bool,
    pub(crate) class: Class,
    pub(crate) requested_bytes: Option<u64>,
}

impl Verdict {
    /// Nothing is injected.
    pub const PASS: Self = Self(None);
    /// Memory runs out, so the loop shrinks.
    pub const OUT_OF_MEMORY: Self = Self::failing(Class::OutOfMemory);
    /// A failure that may be due to memory, so the loop tries the same size once more.
    pub const TRANSIENT: Self = Self::failing(Class::Transient);
    /// The device becomes unusable, so the loop gives up.
    pub const POISONED: Self = Self::failing(Class::Poisoned);
    /// A failure that has nothing to do with memory, so the loop gives up.
    pub const OTHER: Self = Self::failing(Class::Other);

    const fn failing(class: Class) -> Self {
        Self(Some(Injected { after_body: false, class, requested_bytes: None }))
    }

    /// Moves the failure after the body, whose value is dropped, to find bodies that cannot run twice.
    #[must_use]
    pub fn after_body(self) -> Self {
        Self(self.0.map(|injected| Injected { after_body: true, ..injected }))
    }

    /// Adds the number of requested bytes to the failure.
    #[must_use]
    pub fn requesting(self, bytes: u64) -> Self {
        Self(self.0.map(|injected| Injected { requested_bytes: Some(bytes), ..injected }))
    }
}
