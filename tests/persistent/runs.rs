//! One run after another.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use expect_test::expect;
use toma::cache::SizeCache;
use toma::cache::{Place, Remembered};
use toma::device::Ladder;
use toma::{Bisect, NoCache, PersistentCache, execute};

#[cfg(feature = "testing")]
use toma::{Adaptive, testing::FakeDevice};

use crate::kit::{Folder, Memory, batch, batch_on, settled};

#[test]
fn the_next_run_starts_where_this_one_ended() {
    let folder = Folder::new();
    assert_eq!(batch(&folder.cache(), "a", 100, 30), [100, 50, 25]);
    assert_eq!(batch(&folder.cache(), "a", 100, 30), [25]);
    assert_eq!(batch(&folder.cache(), "another", 100, 30), [100, 50, 25]);
}

#[test]
fn what_was_learned_is_written_before_the_call_returns() {
    let folder = Folder::new();
    let cache = folder.cache();
    batch(&cache, "a", 100, 30);
    assert_eq!(settled(&folder.cache()), [("a".into(), 25)]);
    // Nothing is left to its destructor.
    std::mem::forget(cache);
}

#[test]
fn folders_that_are_missing_are_made() {
    let folder = Folder::new();
    let path = folder.path().join("some/folder/sizes.json");
    batch(&PersistentCache::at(&path), "a", 100, 30);
    assert_eq!(batch(&PersistentCache::at(&path), "a", 100, 30), [25]);
}

#[test]
fn a_run_that_learns_nothing_makes_no_file() {
    let folder = Folder::new();
    batch(&folder.cache(), "a", 100, 200);
    batch(&folder.cache(), "a", 100, 0);
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn key_device_and_line_tell_entries_apart() {
    let folder = Folder::new();
    let first = |key: u64, memory: &Memory| {
        let cache = folder.cache();
        let mut tried = Vec::new();
        let with = execute::with::<NoCache>()
            .cache(&cache)
            .device(memory)
            .ladder(Ladder::default().without_waiting())
            .key(key)
            .name("a");
        let _ = with.batch(64, |size| {
            tried.push(size);
            if size > 20 { Err(toma::classify::OutOfMemory::new(None)) } else { Ok(()) }
        });
        tried[0]
    };
    let (one, other) = (Memory::new(40, 80), Memory::named("test:1", 40, 80));
    let firsts = [(1, &one), (1, &one), (2, &one), (2, &one), (1, &other), (1, &other)];
    assert_eq!(firsts.map(|(key, memory)| first(key, memory)), [64, 16, 64, 16, 64, 16]);
    // The same name at another line.
    assert_eq!(batch_on(&folder.cache(), &one, "a", (64, 20)), [64, 32, 16]);
    assert_eq!(folder.cache().entries().len(), 4);
}

#[test]
fn a_seed_counts_until_the_file_knows_better() {
    let folder = Folder::new();
    let cache = folder.cache();
    cache.seed("a", 10);
    assert_eq!(batch(&cache, "a", 100, 30), [10]);
    assert!(cache.entries().is_empty());
    let learner = folder.cache();
    assert_eq!(batch(&learner, "a", 100, 30), [100, 50, 25]);
    let seeded = folder.cache();
    seeded.seed("a", 10);
    assert_eq!(batch(&seeded, "a", 100, 30), [25]);
}

#[test]
fn clearing_forgets_in_memory_and_in_the_file() {
    let folder = Folder::new();
    let cache = folder.cache();
    batch(&cache, "a", 100, 30);
    cache.seed("b", 3);
    cache.clear();
    assert!(cache.entries().is_empty() && folder.cache().entries().is_empty());
    assert_eq!(batch(&cache, "a", 100, 30), [100, 50, 25]);
    assert_eq!(batch(&cache, "b", 100, 30)[0], 100);
    let unused = Folder::new();
    unused.cache().clear();
    assert!(unused.names().is_empty(), "nothing to clear, nothing to write");
}

/// A process that read a file before it was cleared brings back nothing but what it learns.
#[test]
fn what_another_process_cleared_stays_cleared() {
    let folder = Folder::new();
    batch(&folder.cache(), "old", 100, 30);
    let running = folder.cache();
    assert_eq!(batch(&running, "old", 100, 30), [25]);
    assert_eq!(batch(&running, "its own", 100, 30), [100, 50, 25]);
    folder.cache().clear();
    batch(&running, "new", 100, 30);
    assert_eq!(settled(&folder.cache()), [("new".into(), 25)]);
}

#[test]
fn entries_say_what_they_are_about() {
    let folder = Folder::new();
    batch(&folder.cache(), "resize", 100, 30);
    let entries = folder.cache().entries();
    let shown = entries[0].to_string();
    let program = entries[0].program.clone().unwrap();
    assert_eq!(Path::new(&program).file_name().unwrap().to_str(), Some(program.as_str()));
    let shown = shown.replace(&program, "PROGRAM").replace(&format!(", key {:#018x}", entries[0].key), "");
    let (before, line) = shown.split_once("kit.rs:").unwrap();
    assert!(line.ends_with(", in PROGRAM"), "{shown}");
    expect!["resize: size 25 on test:0 of 80.0 GiB, tests/persistent/"].assert_eq(&before.replace('\\', "/"));
}

#[test]
fn a_running_process_sees_at_new_call_sites_what_others_have_learned_since() {
    let folder = Folder::new();
    let running = folder.cache();
    assert_eq!(batch(&running, "first", 8, 8), [8]);
    batch(&folder.cache(), "later", 100, 30);
    assert_eq!(batch(&running, "later", 100, 30), [25]);
}

/// Small changes do not reach the disk by themselves, and are not lost.
#[test]
fn a_change_below_the_head_room_waits_for_a_flush() {
    let folder = Folder::new();
    let cache = folder.cache();
    let learn = |size| remember(&cache, size);
    learn(1000);
    let before = folder.text();
    for size in [1010, 990, 1050] {
        learn(size);
        assert_eq!(folder.text(), before, "{size}");
    }
    learn(900);
    assert!(folder.text().contains("\"settled\": 900"), "{}", folder.text());
    learn(910);
    cache.flush();
    assert!(folder.text().contains("\"settled\": 910"), "{}", folder.text());
    learn(920);
    drop(cache);
    assert!(folder.text().contains("\"settled\": 920"), "{}", folder.text());
}

#[test]
fn a_clock_that_goes_back_makes_newer_evidence_no_older() {
    let folder = Folder::new();
    let cache = folder.cache();
    let now = SystemTime::now();
    remember_at(&cache, 100, now + Duration::from_secs(1000 * 24 * 3600));
    remember_at(&cache, 50, now);
    assert_eq!(settled(&folder.cache())[0].1, 50);
    // The same from run to run.
    remember_at(&folder.cache(), 20, SystemTime::UNIX_EPOCH);
    assert_eq!(settled(&folder.cache())[0].1, 20);
    remember_at(&folder.cache(), 10, SystemTime::UNIX_EPOCH - Duration::from_secs(1));
    assert_eq!(settled(&folder.cache())[0].1, 10);
}

#[test]
fn evidence_is_bounded_however_many_runs_learn() {
    let folder = Folder::in_memory();
    for run in 0..20_usize {
        remember(&folder.cache(), 1 << run);
    }
    // All of them are one run, of this process.
    assert_eq!(folder.text().matches("\"settled\"").count(), 1);
    assert_eq!(folder.names(), ["sizes.json", "sizes.json.lock"]);
}

#[test]
fn bounds_come_back_with_head_room() {
    let folder = Folder::new();
    let tried = |initial| {
        let (cache, memory) = (folder.cache(), Memory::new(40, 80));
        let mut tried = Vec::new();
        let with = execute::with::<NoCache>()
            .cache(&cache)
            .device(&memory)
            .ladder(Ladder::default().without_waiting())
            .policy(Bisect::within(0.0));
        let _ = with.name("a").range(0..10_000, initial, |start, end| {
            tried.push(end - start);
            if end - start > 100 { Err(toma::classify::OutOfMemory::new(None)) } else { Ok(()) }
        });
        tried
    };
    let first = tried(1000);
    assert!(first.iter().filter(|&&size| size > 100).count() > 3 && first.contains(&100), "{first:?}");
    let again = tried(1000);
    assert!(again.iter().all(|&size| size <= 100), "{again:?}");
    assert!(again[0] < 100, "at the edge of what failed the next run does not start: {again:?}");
}

#[test]
#[cfg(unix)]
fn links_of_links_stay_links_whether_the_file_is_there_or_not() {
    for is_there in [true, false] {
        let folder = Folder::new();
        let links = [folder.file(), folder.path().join("elsewhere/link.json")];
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        for (link, target) in links.iter().zip(["elsewhere/link.json", "../not/yet/there.json"]) {
            std::os::unix::fs::symlink(target, link).unwrap();
        }
        let target = folder.path().join("not/yet/there.json");
        if is_there {
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(&target, "").unwrap();
        }
        batch(&folder.cache(), "a", 100, 30);
        assert!(links.iter().all(|link| fs::symlink_metadata(link).unwrap().is_symlink()));
        let text = fs::read_to_string(target).unwrap();
        assert!(text.contains("\"settled\": 25"), "{text}");
        assert_eq!(batch(&folder.cache(), "a", 100, 30), [25]);
        assert_eq!(folder.names().len(), 3, "the lock is beside the file: {:?}", folder.names());
    }
}

fn remember(cache: &PersistentCache, size: usize) {
    remember_at(cache, size, SystemTime::now());
}

/// Remembers the size without a loop that would find it.
fn remember_at(cache: &PersistentCache, size: usize, at: SystemTime) {
    #[derive(Debug)]
    struct Says<'a>(&'a PersistentCache, usize, SystemTime);

    impl SizeCache for Says<'_> {
        fn shared() -> &'static Self {
            unimplemented!("used as an instance only")
        }

        fn recall(&self, _: &Place<'_>) -> Option<Remembered> {
            None
        }

        fn remember(&self, place: &Place<'_>, _: Remembered) {
            let mut learned = Remembered::new(self.1);
            learned.learned = self.2;
            self.0.remember(place, learned);
        }
    }

    batch(&Says(cache, size, at), "a", 4, 2);
}

/// What was measured beside a neighbor says what fits without it, from the first attempt on.
#[cfg(feature = "testing")]
#[test]
fn what_was_measured_outlives_the_run() {
    let (folder, device) = (Folder::new(), FakeDevice::new(404_000));
    let run = || {
        let cache = folder.cache();
        let mut sizes = Vec::new();
        let with = execute::with::<NoCache>()
            .cache(&cache)
            .policy(Adaptive::default())
            .device(&device)
            .ladder(Ladder::default().without_waiting());
        let done = with.name("a").range(0..100_000, 1000, |start, end| {
            sizes.push(end - start);
            // 4000 bytes for every attempt, and 1000 for each item.
            device.alloc(4000 + 1000 * (end - start) as u64).map(drop)
        });
        done.unwrap();
        sizes
    };
    let neighbor = device.alloc(300_000).unwrap();
    let first = run();
    assert!(first[0] < 50 && first.contains(&98), "it measures before it predicts: {first:?}");
    drop(neighbor);
    assert_eq!(run()[0], 395, "what fits, less the head-room of the policy");
}
