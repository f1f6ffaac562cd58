//! `#[toma::profile]`: functions do the same with it, and what they tell is right.

mod sink;
mod text;
mod told;
