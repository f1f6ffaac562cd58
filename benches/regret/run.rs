//! Whole runs through the engine.

use toma::testing::StoppedClock;
use toma::{GlobalCache, execute, report};

use crate::policies::Entry;
use crate::source::{Shown, Source};
use crate::table::Runs;
use crate::world::World;

#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
pub(crate) fn runs(world: &World, policy: &Entry, source: Source) -> Runs {
    let (device, cache, best) = (world.device(), GlobalCache::new(), world.best());
    let run = || {
        let clock = StoppedClock::new();
        let shown = Shown(&device, source);
        let with = execute::with::<GlobalCache>().cache(&cache).policy((policy.make)()).device(&shown);
        let result = with
            .range(0..world.items, world.initial, |start, end| world.attempt(&device, &clock, end - start));
        result.expect("a size of 1 fits");
        let time = clock.elapsed().as_secs_f64() * 1000.0;
        (time / best, report::last().map_or(0, |report| report.out_of_memory))
    };
    let (cold, out_of_memory) = run();
    let kept = cache.entries().first().map_or(world.initial, |entry| entry.remembered.settled);
    let (warm, _) = run();
    Runs { cold, warm, out_of_memory, kept: kept as f64 / world.limit as f64 }
}
