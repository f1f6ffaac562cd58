//! Sizes by cost: what is packed together, what is tried, what is left out, what is learned.

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
