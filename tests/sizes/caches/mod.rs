//! What the size caches remember, what they tell apart, and what they never do.

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
