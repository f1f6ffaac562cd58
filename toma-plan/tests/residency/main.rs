//! Steps in less memory than they take: rules worked out by hand, a slow twin of the simulator, and bad input.

#![expect(clippy::float_cmp, reason = "times are small whole numbers, which floats hold exactly")]

mod bad_input;
mod draw;
mod exhaustive;
mod layers;
mod optima;
mod periods;
mod recorded;
#[path = "../../../tests/common/rounds.rs"]
mod rounds;
mod steps;
mod tables;
mod twin;

pub(crate) use draw::Draw;

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
pub(crate) fn float(bytes: u64) -> f64 {
    bytes as f64
}

impl Draw {
    /// Returns true once in `times` draws on average.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
