//! What decides which storages leave.

use super::{Plan, Step};

/// Decides what leaves the device.
///
/// It advises. Entries that are no candidates are ignored; where the list frees too little, the rest leaves least
/// recently used first. So a poor eviction costs time, never a result.
///
/// ```
/// # mod toma { pub use toma_plan as plan; }
/// use std::cmp::Reverse;
/// use toma::plan::residency::{Eviction, Situation};
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
    /// What reports call it.
    fn name(&self) -> &'static str;

    /// What leaves when [`lacking_bytes`](Situation::lacking_bytes) more are needed, the first first.
    ///
    /// The list is carried out up to where the bytes suffice.
    fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64>;

    /// Whether [`leave`](Self::leave) is to be asked, after each operator.
    fn is_eager(&self) -> bool {
        false
    }

    /// What leaves after an operator although there is room. All of it is carried out.
    fn leave(&mut self, _situation: &Situation<'_>) -> Vec<u64> {
        Vec::new()
    }

    /// A plan for a step that is known. It is asked again when budget or links change.
    ///
    /// Without one, every storage is fetched by the operator that needs it.
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

/// What an eviction sees.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The number of the operator that begins, or for [`leave`](Eviction::leave) of the one that has ended.
    pub now: u64,
    /// The bytes that are missing; 0 for [`leave`](Eviction::leave).
    pub lacking_bytes: u64,
    /// What is on the device, can move and is not in use, in any order.
    pub candidates: &'a [Candidate],
}

/// A storage that may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number: for a simulated step its place in the list of storages.
    pub storage: u64,
    /// Its size.
    pub bytes: u64,
    /// The number of the last operator that used or made it.
    pub last_use: u64,
    /// What happens to it next.
    pub next: Next,
    /// Whether a valid copy lies outside, so that nothing has to be copied for it to leave.
    pub has_copy: bool,
}

/// What happens to a storage next, on the clock of [`Situation::now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// The step is not known.
    Unknown,
    /// The operator of that number uses it.
    Use(u64),
    /// It is gone before the operator of that number begins.
    Death(u64),
    /// It is neither used again nor gone.
    Never,
}

/// What a step is planned or simulated for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The most bytes on the device.
    pub budget_bytes: u64,
    /// The speed of the link to the device: positive, or infinite.
    pub in_bytes_per_second: f64,
    /// The speed of the link from the device: positive, or infinite.
    pub out_bytes_per_second: f64,
}

impl Terms {
    /// Terms in which moving takes no time, so that bytes alone count.
    pub fn bytes_alone(budget_bytes: u64) -> Self {
        Self { budget_bytes, in_bytes_per_second: f64::INFINITY, out_bytes_per_second: f64::INFINITY }
    }
}
