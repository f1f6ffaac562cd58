//! Traces: refused events, live storages, text, and the tables and files made of them.

mod holdings;
mod inventory;
mod lines;
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
