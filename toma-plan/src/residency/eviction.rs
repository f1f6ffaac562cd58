//! The interface of evictions, which choose the storages to evict.

use super::{Plan, Step};

/// Chooses the storages that are evicted from the device.
///
/// The choice is advice. Entries that are no candidates are ignored; if the list frees too little, other storages are
/// evicted, least recently used first. So a poor eviction costs time, but never changes a result.
///
/// ```
/// use std::cmp::Reverse;
/// use toma_plan::residency::{Eviction, Situation};
///
/// /// The largest leaves first.
/// struct Largest;
///
/// impl Eviction for Largest {
///     fn name(&self) -> &'static str {
///         "largest"
///     }
///
///     fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64> {
///         let mut candidates = situation.candidates.to_vec();
///         candidates.sort_by_key(|candidate| Reverse(candidate.bytes));
///         candidates.iter().map(|candidate| candidate.storage).collect()
///     }
/// }
/// # assert_eq!(Largest.name(), "largest");
/// ```
pub trait Eviction: Send {
    /// Returns the name that reports show.
    fn name(&self) -> &'static str;

    /// Returns the storages to evict when [`lacking_bytes`](Situation::lacking_bytes) more are needed, in order.
    ///
    /// The list is followed until the bytes suffice.
    fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64>;

    /// True if [`leave`](Self::leave) is to be called after each operator.
    fn is_eager(&self) -> bool {
        false
    }

    /// Returns storages to evict after an operator although there is room. All of them are evicted.
    fn leave(&mut self, _situation: &Situation<'_>) -> Vec<u64> {
        Vec::new()
    }

    /// Returns a plan for a known step. Called again when the budget or the links change.
    ///
    /// On a CPU it is called with links that cost no time, because copies and operators share one memory there. If it
    /// returns no plan for a predicted step, it is called once more with the measured links.
    ///
    /// Without a plan, every storage is fetched by the operator that needs it.
    fn plan(&mut self, _step: &Step, _terms: &Terms) -> Option<Plan> {
        None
    }
}

impl<E: Eviction + ?Sized> Eviction for Box<E> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        (**self).evict(situation)
    }

    fn is_eager(&self) -> bool {
        (**self).is_eager()
    }

    fn leave(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        (**self).leave(situation)
    }

    fn plan(&mut self, step: &Step, terms: &Terms) -> Option<Plan> {
        (**self).plan(step, terms)
    }
}

/// The state of the device for an eviction.
///
/// ```
/// use toma_plan::residency::{Candidate, Situation};
///
/// /// The largest storage that is used no more.
/// fn largest<'a>(situation: &Situation<'a>) -> Option<&'a Candidate> {
///     situation.candidates.iter().max_by_key(|candidate| candidate.bytes)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The number of the operator that begins, or for [`leave`](Eviction::leave) of the one that has ended.
    pub now: u64,
    /// The bytes that are missing; 0 for [`leave`](Eviction::leave).
    pub lacking_bytes: u64,
    /// Storages that are on the device, can move and are not in use, in any order.
    pub candidates: &'a [Candidate],
}

/// A storage that may be evicted.
///
/// ```
/// use toma_plan::residency::{Candidate, Next};
///
/// let weight = Candidate { storage: 3, bytes: 4096, last_use: 7, next: Next::Use(19), has_copy: true };
/// let moved_bytes = if weight.has_copy { 0 } else { weight.bytes };
/// assert_eq!(moved_bytes, 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Number of the storage: for a simulated step its index in the list of storages.
    pub storage: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of the last operator that used or made it.
    pub last_use: u64,
    /// Next event of the storage.
    pub next: Next,
    /// True if the host has a valid copy, so that an eviction copies nothing.
    pub has_copy: bool,
}

/// Next event of a storage, on the clock of [`Situation::now`].
///
/// ```
/// use toma_plan::residency::Next;
///
/// /// The number of operators for which an eviction frees room.
/// fn distance(next: Next, now: u64) -> Option<u64> {
///     match next {
///         Next::Use(operator) | Next::Death(operator) => Some(operator - now),
///         Next::Unknown | Next::Never => None,
///     }
/// }
/// assert_eq!(distance(Next::Use(19), 7), Some(12));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// The step is not known.
    Unknown,
    /// The operator of that number uses the storage.
    Use(u64),
    /// The storage is freed before the operator of that number begins.
    Death(u64),
    /// The storage is neither used again nor freed.
    Never,
}

/// Budget and link speeds for which a step is planned or simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The most bytes on the device.
    pub budget_bytes: u64,
    /// Speed of the link to the device: positive, or infinite.
    pub in_bytes_per_second: f64,
    /// Speed of the link from the device: positive, or infinite.
    pub out_bytes_per_second: f64,
}

impl Terms {
    /// Returns terms in which moving takes no time, so that only bytes count.
    pub fn bytes_alone(budget_bytes: u64) -> Self {
        Self { budget_bytes, in_bytes_per_second: f64::INFINITY, out_bytes_per_second: f64::INFINITY }
    }
}
