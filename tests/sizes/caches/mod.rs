//! Size caches: the sizes they remember, the calls they distinguish, and their invariants.

mod custom;
mod default;
#[cfg(feature = "testing")]
mod doubts;
mod identity;
mod inspect;
mod kit;
mod learning;
mod lifetime;
mod model;
mod threads;
