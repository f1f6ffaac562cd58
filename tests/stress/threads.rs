//! The threads, and the work of each.

use std::io::{Write as _, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use fastrand::Rng;

use crate::actor::Actor;
use crate::ending::Ending;
use crate::scene;
use crate::watchdog;
use crate::world::World;

/// Runs until there have been enough attempts. A mistake that any thread finds panics.
pub(crate) fn run(world: &Arc<World>) {
    let (mut seeds, ends) = (Rng::with_seed(world.seed), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| watchdog::watch(world.seed, &world.slots, &ends));
        let chaos = seeds.fork();
        thread::scope(|scope| {
            scope.spawn(|| world.disturb(chaos));
            for slot in 0..world.slots.len() {
                let random = seeds.fork();
                scope.spawn(move || work(world, slot, random));
            }
        });
        ends.store(true, Relaxed);
    });
    let found = world.failed.load(Relaxed);
    assert!(!found, "the mistake is above; TOMA_STRESS_SEED={} makes the same choices", world.seed);
}

fn work(world: &Arc<World>, slot: usize, mut random: Rng) {
    for call in 0.. {
        if world.is_over() {
            break;
        }
        let result = catch_unwind(AssertUnwindSafe(|| one_call(world, slot, &mut random)));
        if result.is_err() {
            world.failed.store(true, Relaxed);
            let _ = writeln!(stderr(), "stress: thread {slot}, call {call}, seed {}", world.seed);
        }
    }
    world.slots[slot].rests();
}

/// Makes a call of this thread, of tasks, or of a task that stays on this thread. Each call has a seed of its own, so
/// that the numbers drawn in a call do not change later calls.
fn one_call(world: &Arc<World>, slot: usize, random: &mut Rng) {
    match random.u8(..8) {
        0 => tasks(world, slot, random),
        1 => {
            let actor = Actor::new(world, slot, random.u64(..), false);
            let injection = actor.inject();
            let ending = world.runtime.block_on(scene::perform_async(&actor, 0));
            drop(injection);
            actor.end(ending);
        }
        _ => {
            let actor = Actor::new(world, slot, random.u64(..), true);
            let injection = actor.inject();
            let ending = scene::perform(&actor, 0);
            drop(injection);
            actor.end(ending);
        }
    }
}

fn tasks(world: &Arc<World>, slot: usize, random: &mut Rng) {
    let tasks: Vec<_> = (0..random.usize(1..=3))
        .map(|_| world.runtime.spawn(task(Arc::clone(world), slot, random.u64(..))))
        .collect();
    for task in tasks {
        if let Err(error) = world.runtime.block_on(task) {
            resume_unwind(error.into_panic());
        }
    }
}

async fn task(world: Arc<World>, slot: usize, seed: u64) {
    world.counts.tasks.fetch_add(1, Relaxed);
    let actor = Actor::new(&world, slot, seed, false);
    let ending: Ending = scene::perform_async(&actor, 0).await;
    actor.end(ending);
}
