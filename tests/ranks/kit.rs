//! Ranks on threads of this process.

use std::thread;
use std::time::Duration;

use toma::execute::{self, With};
use toma::ranks::{self, Member};
use toma::{Halve, NoCache};
use toma_core::Auto;

/// A form of this name, without a cache, whose ranks agree.
pub(crate) fn form<'r>(name: &'static str, rank: &'r Member) -> With<'r, Halve, Auto, ()> {
    execute::with::<NoCache>().name(name).ranks(rank)
}

/// Runs `run` on so many ranks, and returns the results in order.
pub(crate) fn on_each<R: Send>(size: usize, run: impl Fn(Member) -> R + Sync) -> Vec<R> {
    on_each_within(size, Duration::from_secs(60), run)
}

/// Runs `run` on so many ranks with this timeout for votes.
pub(crate) fn on_each_within<R: Send>(
    size: usize,
    timeout: Duration,
    run: impl Fn(Member) -> R + Sync,
) -> Vec<R> {
    let run = &run;
    thread::scope(|scope| {
        let ranks = ranks::threads(size).into_iter().map(|rank| rank.timeout(timeout));
        let running: Vec<_> = ranks.map(|rank| scope.spawn(move || run(rank))).collect();
        running.into_iter().map(|rank| rank.join().expect("a rank does not panic")).collect()
    })
}
