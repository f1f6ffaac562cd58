//! Sizes by cost: packing of items, attempts, items left out, and learned sizes.

mod against_twin;
mod extremes;
mod learning;
mod left_out;
#[cfg(feature = "testing")]
mod left_out_among_others;
#[cfg(feature = "testing")]
mod measuring;
mod packed;
mod padded;
mod seen;
mod twin;

use toma::policy::Policy;
use toma::{Adaptive, Bisect, Decay, Halve, Throughput};

const POLICIES: [fn() -> Box<dyn Policy>; 5] = [
    || Box::new(Halve),
    || Box::new(Bisect::default()),
    || Box::new(Adaptive::default()),
    || Box::new(Throughput::default()),
    || Box::new(Decay::new(0.6)),
];
