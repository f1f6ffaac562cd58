//! One run after another. Each cache on the file of a folder counts as one run.

use std::fs;
use std::time::Duration;

use toma::policy::Policy;
use toma::testing::{FakeDevice, StoppedClock};
use toma::{Adaptive, Bisect, Halve, NoCache, PersistentCache, Throughput, execute};

use crate::kit::{Folder, batch};

#[test]
#[cfg(unix)]
fn the_next_run_starts_where_this_one_ended() {
    let (folder, link) = (Folder::new(), Folder::new());
    let path = folder.join("some/folder/sizes.json");
    let cache = PersistentCache::at(&path);
    assert_eq!(batch(&cache, "a", 100, 200), [100]);
    assert_eq!(batch(&cache, "a", 100, 0).last(), Some(&1));
    assert!(!path.exists(), "nothing is learned");
    assert_eq!(batch(&cache, "a", 100, 30), [100, 50, 25]);
    std::os::unix::fs::symlink(&path, link.file()).unwrap();
    assert_eq!(batch(&link.cache(), "a", 100, 20), [25, 12]);
    assert_eq!(batch(&PersistentCache::at(path), "a", 100, 30), [12], "a link to the file stays a link");
}

#[test]
fn a_size_that_does_not_fit_costs_one_failure_and_heals() {
    let folder = Folder::new();
    assert_eq!(batch(&folder.cache(), "a", 100, 60), [100, 50]);
    assert_eq!(batch(&folder.cache(), "a", 100, 30), [50, 25]);
    assert_eq!(batch(&folder.cache(), "a", 100, 30), [25]);
    // A size that is too small is doubted after 64 calls and a minute, as within a process.
    let (clock, cache) = (StoppedClock::new(), folder.cache());
    clock.advance(Duration::from_secs(3600));
    (0..64).for_each(|_| assert_eq!(batch(&cache, "a", 100, 100), [25]));
    assert_eq!(batch(&cache, "a", 100, 100), [50]);
    assert_eq!(folder.settled(), [("a".into(), 50)]);
}

/// Returns the sizes tried by a range.
fn range(
    folder: &Folder,
    (name, key): (&'static str, u64),
    device: &FakeDevice,
    policy: &dyn Policy,
) -> Vec<usize> {
    let (cache, mut sizes) = (folder.cache(), Vec::new());
    let with = execute::with::<NoCache>().cache(&cache).policy(policy).device(device).key(key).name(name);
    let done = with.range(0..100_000, 1000, |start, end| {
        sizes.push(end - start);
        // 4000 bytes for every attempt, and 1000 for each item.
        device.alloc(4000 + 1000 * (end - start) as u64).map(drop)
    });
    done.map(|()| sizes).unwrap()
}

#[test]
fn name_line_key_device_and_total_distinguish_entries() {
    let (folder, devices) = (Folder::new(), [(); 2].map(|()| FakeDevice::new(404_000)));
    let starts = |name, key, device: usize| range(&folder, (name, key), &devices[device], &Halve)[0];
    for start in [1000, 250] {
        assert_eq!([starts("a", 1, 0), starts("b", 1, 0), starts("a", 2, 0), starts("a", 1, 1)], [start; 4]);
    }
    devices[0].set_budget(404_001);
    assert_eq!(starts("a", 1, 0), 250, "totals that differ by less than 3 % are one");
    devices[0].set_budget(440_000);
    assert_eq!(starts("a", 1, 0), 1000);
    fs::write(folder.file(), folder.text().replace("runs.rs:", "moved.rs:")).unwrap();
    assert_eq!(starts("b", 1, 0), 1000, "another line");
}

#[test]
fn the_file_comes_before_a_seed_and_a_seed_before_a_table_until_they_are_cleared() {
    let (learned, folder) = (Folder::new(), Folder::new());
    batch(&learned.cache(), "a", 100, 30);
    let table = learned.text().replace("kit.rs:", "moved.rs:");
    let cache = folder.cache().with_table("a poem").with_table("");
    assert_eq!(batch(&cache, "a", 100, 100), [100]);
    cache.add_table(&table);
    assert_eq!(batch(&cache, "a", 100, 100), [25]);
    cache.seed("a", 12);
    assert_eq!(batch(&cache, "a", 100, 30), [12]);
    assert_eq!(folder.text(), "", "neither is written");
    batch(&learned.cache(), "a", 100, 10);
    let cache = learned.cache().with_table(&table);
    cache.seed("a", 12);
    assert_eq!(batch(&cache, "a", 100, 10), [6]);
    let running = learned.cache();
    assert_eq!(batch(&running, "a", 100, 10), [6]);
    cache.clear();
    assert_eq!(batch(&cache, "a", 100, 100), [100], "all three are forgotten");
    batch(&running, "new", 100, 30);
    assert_eq!(learned.settled(), [("new".into(), 25)], "no other process brings back what one has cleared");
}

/// Measurements made next to a neighbor predict the size that fits without it, from the first attempt on.
#[test]
fn measurements_outlive_the_run() {
    let (folder, device, policy) = (Folder::new(), FakeDevice::new(404_000), Adaptive::default());
    let neighbor = device.alloc(300_000).unwrap();
    let first = range(&folder, ("a", 1), &device, &policy);
    assert!(first[0] < 50 && first.contains(&98), "it measures before it predicts: {first:?}");
    drop(neighbor);
    assert_eq!(range(&folder, ("a", 1), &device, &policy)[0], 395, "what fits, less the policy's head-room");
}

/// The numbers of a file may come from anywhere.
#[test]
fn any_numbers_in_a_file_are_survived() {
    let (folder, device) = (Folder::new(), FakeDevice::new(404_000));
    range(&folder, ("a", 1), &device, &Adaptive::default());
    let text = folder.text();
    let (call, learned) = text.split_once("learned").unwrap();
    let replaced = |word: &str| match word.trim_start_matches(char::is_numeric) {
        rest if rest != word && fastrand::bool() => {
            format!("{}{rest}", fastrand::choice([0, 1, 50, 400, u64::MAX]).unwrap())
        }
        _ => word.into(),
    };
    let policies: [&dyn Policy; 4] =
        [&Halve, &Bisect::default(), &Adaptive::default(), &Throughput::default()];
    for policy in policies.repeat(40) {
        let garbage: Vec<String> = learned.replace("null", "1").split(' ').map(replaced).collect();
        println!("{}", garbage.join(" "));
        fs::write(folder.file(), format!("{call}learned{}", garbage.join(" "))).unwrap();
        assert!(!range(&folder, ("a", 1), &device, policy).contains(&0));
    }
}

#[test]
fn the_file_holds_2048_entries_those_learned_last() {
    let folder = Folder::new();
    batch(&folder.cache(), "a", 100, 30);
    let text = folder.text();
    let (begin, end) = (text.find('[').unwrap() + 1, text.rfind(']').unwrap());
    let entries = (0..2048).map(|i| text[begin..end].replace("\"a\"", &format!("\"{i}\"")));
    let full = entries.collect::<Vec<_>>().join(",");
    fs::write(folder.file(), format!("{}{full}{}", &text[..begin], &text[end..])).unwrap();
    batch(&folder.cache(), "new", 100, 30);
    let entries = folder.cache().entries();
    let names = [0, 1, 2047].map(|i| entries[i].name.as_str());
    assert_eq!((names, entries.len()), (["1", "2", "new"], 2048));
}

/// Tests the example in the documentation of the format.
#[test]
fn the_documented_file_is_read() {
    let source = include_str!("../../toma-core/src/cache/persistent/mod.rs");
    let example = source.split("//! ```").nth(1).unwrap().replace("//! ", "").replacen("json", "", 1);
    let folder = Folder::new();
    fs::write(folder.file(), example).unwrap();
    assert_eq!(folder.settled(), [("demo::nearest".into(), 750)]);
}
