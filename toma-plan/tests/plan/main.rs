//! Predictions from traces, against twins that record the same step at the size in question.

mod grown;
mod program;
mod rows;
mod tape;
mod unlike;

use toma_trace::{Place, ThreadId};

const MAIN: ThreadId = ThreadId(0);

fn gpu() -> Place {
    Place::device("cuda", 0)
}
