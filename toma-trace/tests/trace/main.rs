//! Traces: refused events, live storages, text, and the facts that later users read from them.

mod checkpoints;
mod holdings;
mod inventory;
mod lines;
mod offload;
mod random;
mod refused;
mod text;
mod twin;
mod written;

use toma_trace::{Place, ThreadId};

const MAIN: ThreadId = ThreadId(0);
const OTHER: ThreadId = ThreadId(7);

fn gpu() -> Place {
    Place::device("cuda", 0)
}
