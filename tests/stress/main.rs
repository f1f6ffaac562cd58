//! Sixteen threads, nested loops in every form, failures of every class, and budgets that change during the calls. In
//! all cases every element is done once, every failure goes to its own call, and nothing is left over.
//!
//! Every choice comes from one seed per thread. `TOMA_STRESS_SEED=SEED` repeats the same choices,
//! `TOMA_STRESS_ATTEMPTS=N` makes more attempts than the default of 20,000, and `cargo xtask nightly` makes a million.

#![cfg(feature = "testing")]

mod actor;
mod asynchronous;
mod check;
mod device;
mod ending;
mod fault;
mod forms;
mod log;
mod plan;
mod printed;
mod reserving;
mod scene;
mod threads;
mod watchdog;
mod world;

use std::io::{Write as _, stderr};
use std::time::Instant;

use crate::world::World;

const THREADS: usize = 16;

#[test]
fn stress_with_every_failure_and_moving_budgets() {
    let (seed, attempts) = (setting("TOMA_STRESS_SEED"), setting("TOMA_STRESS_ATTEMPTS"));
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let began = Instant::now();
    printed::listen();
    let world = World::new(seed, attempts.unwrap_or(20_000), THREADS);
    threads::run(&world);
    world.check_what_is_left();
    reserving::check_what_is_left();
    let line = format!("stress: seed {seed}, {:.1?}, {}\n", began.elapsed(), world.counts);
    stderr().write_all(line.as_bytes()).expect("stderr takes a line");
    world.counts.check();
}

/// Returns a number from the environment.
fn setting(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: must be a number")))
}
