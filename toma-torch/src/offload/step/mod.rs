//! The step that a program repeats: detected, recorded, followed.

pub(crate) mod known_step;
pub(crate) mod position;
pub(crate) mod recorder;
pub(crate) mod steps;
