//! What follows from traces, against twins that record the same step at the size in question.

mod grown;
mod program;
mod rows;
mod tape;
mod unlike;

use proptest::prelude::ProptestConfig;
use toma_trace::{Place, ThreadId};

const MAIN: ThreadId = ThreadId(0);

fn gpu() -> Place {
    Place::device("cuda", 0)
}

fn many() -> ProptestConfig {
    ProptestConfig { cases: 10_000, ..ProptestConfig::default() }
}
