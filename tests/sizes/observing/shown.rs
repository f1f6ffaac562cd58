//! The printed form of reports.

use expect_test::{Expect, expect};
use toma::{Bisect, GlobalCache, NoCache, execute, report};

use crate::kit::fits;
use crate::observing::world::{
    FINE, OTHER, OUT_OF_MEMORY, POISONED, Restless, TRANSIENT_SMALL, World, inline,
};

/// Compares the printed form of the last report, without its times.
pub(crate) fn shows(expected: &Expect) {
    let text = report::last().unwrap().to_string();
    expected.assert_eq(&text.lines().map(|line| timeless(line) + "\n").collect::<String>());
}

/// Returns a line with placeholders for the times and for the lost share.
fn timeless(line: &str) -> String {
    let is_lost = line.starts_with("  lost");
    let masked = |word: &str| match word.strip_prefix('(').unwrap_or(word) {
        number if !number.starts_with(|c: char| c.is_ascii_digit()) => word.to_owned(),
        number if is_lost && word.starts_with('(') => {
            assert!((0.0..=100.0).contains(&number.parse::<f64>().unwrap()), "{line}");
            "(SHARE".to_owned()
        }
        time => match time.trim_end_matches([')', ',']) {
            bare if bare.ends_with('s') => time.replace(bare, "TIME"),
            _ => word.to_owned(),
        },
    };
    line.split(' ').map(masked).collect::<Vec<_>>().join(" ")
}

#[test]
fn success() {
    inline(&World::new([]), 20).unwrap();
    shows(&expect![[r#"
        work: 20 items in 3 attempts, never out of memory
          started  at 8, nothing was remembered
          next     starts at 8 again
    "#]]);
}

#[test]
fn one_item() {
    inline(&World::new([]), 1).unwrap();
    shows(&expect![[r#"
        work: 1 item in 1 attempt, never out of memory
          started  at 1, nothing was remembered
          next     starts at 1 again
    "#]]);
}

#[test]
fn shrinks() {
    inline(&World::new([FINE, OUT_OF_MEMORY, FINE, OUT_OF_MEMORY, TRANSIENT_SMALL]), 20).unwrap();
    shows(&expect![[r#"
        work: 20 items in 9 attempts, 2 out of memory
          started  at 8, nothing was remembered
          tried    8 worked once, 8 -> 4 worked once, 4 -> 2 (transient failure) -> 2 again worked 4 times
          learned  2 works, 4 does not; 2 is at least 50 % of the limit
          lost     TIME of TIME (SHARE %) in attempts that failed
          next     starts from 2, remembered in GlobalCache
    "#]]);
}

#[test]
fn gave_up_a_poisoned_device() {
    inline(&World::new([POISONED]), 20).unwrap_err();
    shows(&expect![[r#"
        work: gave up at 0 of 20 items after 1 attempt, never out of memory
          started  at 8, nothing was remembered
          tried    8 (device context poisoned) -> gave up
          why      the device context is poisoned
          next     starts at 8 again, because nothing was settled
    "#]]);
}

#[test]
fn batch() {
    World::new([OUT_OF_MEMORY]).batch().unwrap();
    shows(&expect![[r#"
        work: a batch of 4 in 2 attempts, 1 out of memory
          started  at 8, nothing was remembered
          tried    8 -> 4 worked once
          learned  4 works, 8 does not; 4 is at least 50 % of the limit
          lost     TIME of TIME (SHARE %) in attempts that failed
          next     starts from 4, remembered in GlobalCache
    "#]]);
}

#[test]
fn a_rest_that_fails() {
    inline(&World::new([FINE, OUT_OF_MEMORY]), 12).unwrap();
    shows(&expect![[r#"
        work: 12 items in 4 attempts, 1 out of memory
          started  at 8, nothing was remembered
          tried    8 worked once, 4 -> 2 worked 2 times
          learned  2 works, 4 does not; 2 is at least 50 % of the limit
          lost     TIME of TIME (SHARE %) in attempts that failed
          next     starts from 2, remembered in GlobalCache
    "#]]);
}

/// A seeded size does not show whether there was an earlier call.
#[test]
fn a_call_that_starts_from_a_seed() {
    let cache = GlobalCache::new();
    cache.seed("work", 7);
    execute::with::<NoCache>().cache(&cache).name("work").range(0..14, 8, |_, _| ());
    shows(&expect![[r#"
        work: 14 items in 2 attempts, never out of memory
          started  at 7, remembered
          next     starts at 7 again
    "#]]);
    execute::with::<NoCache>().cache(&cache).name("work").range(0..3, 8, |_, _| ());
    shows(&expect![[r#"
        work: 3 items in 1 attempt, never out of memory
          started  at 3, 7 was remembered
          next     starts at 3 again
    "#]]);
}

#[test]
fn second_call() {
    let world = World::new([OUT_OF_MEMORY]);
    inline(&world, 8).unwrap();
    inline(&world, 8).unwrap();
    shows(&expect![[r#"
        work: 8 items in 2 attempts, never out of memory
          started  at 4, remembered
          known    4 works, 8 does not; 4 is at least 50 % of the limit
          next     starts at 4 again
    "#]]);
}

#[test]
fn gave_up_a_batch() {
    let mut world = World::new([OUT_OF_MEMORY; 2]);
    world.min = 4;
    world.batch().unwrap_err();
    shows(&expect![[r#"
        work: gave up a batch after 2 attempts, 2 out of memory
          started  at 8, nothing was remembered
          tried    8 -> 4 -> gave up
          why      no smaller size is allowed, and it does not fit at size 4: needs 4.0 KiB, 512 bytes free
          lost     TIME of TIME (SHARE %) in attempts that failed
          next     starts at 8 again, because nothing was settled
    "#]]);
}

#[test]
fn gave_up_what_is_settled_already() {
    inline(&World::new([OUT_OF_MEMORY, FINE, OTHER]), 20).unwrap_err();
    shows(&expect![[r#"
        work: gave up at 4 of 20 items after 3 attempts, 1 out of memory
          started  at 8, nothing was remembered
          tried    8 -> 4 worked once, 4 (other failure) -> gave up
          learned  4 works, 8 does not; 4 is at least 50 % of the limit
          why      not out of memory
          lost     TIME of TIME (SHARE %) in attempts that failed
          next     starts from 4, remembered in GlobalCache
    "#]]);
}

#[test]
fn left_early() {
    let body = |start: usize, end: usize| fits(end - start, 2).map(|()| start);
    let mut values = execute::with::<NoCache>().name("work").iter(0..20, 8, body);
    assert_eq!(values.next().unwrap().unwrap(), 0);
    drop(values);
    shows(&expect![[r#"
        work: 2 of 20 items in 3 attempts, 2 out of memory
          started  at 8, nothing was remembered
          tried    8 -> 4 -> 2 worked once
          learned  2 works, 4 does not; 2 is at least 50 % of the limit
          lost     at least TIME in attempts that failed
          next     starts at 8 again, because NoCache remembers nothing
    "#]]);
}

/// `Bisect` searches between a size that works and one that fails, and finds the limit itself.
#[test]
fn bisects_to_the_limit() {
    let cache = GlobalCache::new();
    let with = execute::with::<GlobalCache>().cache(&cache).policy(Bisect::within(0.0)).name("work");
    with.range(0..100, 8, |start, end| fits(end - start, 5)).unwrap();
    shows(&expect![[r#"
        work: 100 items in 23 attempts, 2 out of memory
          started  at 8, nothing was remembered
          tried    8 -> 4 worked once, 6 -> 4 worked once, 5 worked 19 times
          learned  5 works, 6 does not; 5 is the limit
          lost     at least TIME in attempts that failed
          next     starts from 5, remembered in GlobalCache
    "#]]);
}

/// More sizes than a user reads.
#[test]
fn changes_without_end() {
    let call = |items| {
        execute::with::<NoCache>().name("work").policy(Restless { most: 7 }).range(0..items, 7, |_, _| ());
    };
    call(60);
    shows(&expect![[r#"
        work: 60 items in 17 attempts, never out of memory
          started  at 1, nothing was remembered
          tried    1 worked once, 2 worked once, 3 worked once, 4 worked once, ... 8 changes between 1 and 7 ..., 6 worked once, 7 worked once, 1 worked once, 2 worked once, 3 worked once
          next     starts at 1 again
    "#]]);
    call(6000);
    shows(&expect![[r#"
        work: 6000 items in 1502 attempts, never out of memory
          started  at 1, nothing was remembered
          tried    1 worked once, 2 worked once, 3 worked once, 4 worked once, ... 247 changes between 1 and 7 ..., 7 worked once, 1 worked once, 2 worked once, 3 worked once, 4 worked once, ... 1246 more attempts
          next     starts at 1 again
    "#]]);
}

#[cfg(feature = "testing")]
mod measured {
    use toma::Adaptive;
    use toma::testing::FakeDevice;

    use super::{GlobalCache, execute, expect, shows};

    fn adaptive(device: &FakeDevice, cache: &GlobalCache) {
        let with = execute::with::<GlobalCache>().cache(cache).policy(Adaptive::default()).device(device);
        let _ = with
            .name("work")
            .range(0..1000, 256, |start, end| device.alloc(50_000 + 1000 * (end - start) as u64).map(drop));
    }

    #[test]
    fn first_and_second_call() {
        let (device, cache) = (FakeDevice::new(150_500), GlobalCache::new());
        adaptive(&device, &cache);
        shows(&expect![[r#"
            work: 1000 items in 14 attempts, 1 out of memory
              started  at 256, nothing was remembered
              tried    256 -> 4 worked once, 11 worked once, 98 worked 11 times
              learned  98 works, 256 does not; 98 took 144.5 KiB of 147.0 KiB (98 %)
              lost     TIME of TIME (SHARE %) in attempts that failed
              next     starts from 98, remembered in GlobalCache
        "#]]);
        adaptive(&device, &cache);
        shows(&expect![[r#"
            work: 1000 items in 11 attempts, never out of memory
              started  at 98, remembered
              known    98 works, 256 does not; 98 took 144.5 KiB of 147.0 KiB (98 %)
              next     starts at 98 again
        "#]]);
    }

    /// A size that worked with more memory is no evidence for one with less.
    #[test]
    fn after_the_memory_was_halved() {
        let (device, cache) = (FakeDevice::new(100), GlobalCache::new());
        let batch = || {
            let with = execute::with::<GlobalCache>().cache(&cache).policy(Adaptive::default());
            let with = with.device(&device).name("work");
            with.batch(64, |size| device.alloc(10 * size as u64).map(drop)).unwrap();
        };
        (0..5).for_each(|_| batch());
        device.set_budget(50);
        (0..2).for_each(|_| batch());
        shows(&expect![[r#"
            work: a batch of 4 in 1 attempt, never out of memory
              started  at 4, remembered
              known    9 worked in an earlier call, 64 did not; 4 took 40 bytes of 50 bytes (80 %)
              next     starts at 4 again
        "#]]);
    }

    #[test]
    fn an_item_that_cannot_fit() {
        adaptive(&FakeDevice::new(50_500), &GlobalCache::new());
        shows(&expect![[r#"
            work: gave up at 0 of 1000 items after 3 attempts, 3 out of memory
              started  at 256, nothing was remembered
              tried    256 -> 4 -> 1 -> gave up
              why      no smaller size is allowed, and it does not fit at size 1: needs 49.8 KiB, 49.3 KiB free
              lost     TIME of TIME (SHARE %) in attempts that failed
              next     starts at 256 again, because nothing was settled
        "#]]);
    }
}
