//! Lines: figures counted while a program runs, the tables, and both again from a trace.

mod against_twin;
mod program;
mod tables;
mod threads;
mod traced;
mod twin;

use toma_trace::Place;

fn gpu() -> Place {
    Place::device("cuda", 0)
}
