//! Processes and threads that share a file, wherever they are killed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Child;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use toma::PersistentCache;

use crate::child;
use crate::kit::{Folder, batch, order};

/// The largest first size of a child, which settles at half of its last size again and again.
const LARGEST: usize = 1 << 40;

/// Pairs of children write to one file at once, under names of their own. A child reports a size once it has remembered
/// it, and may be killed between the two.
#[test]
fn two_processes_at_once_lose_nothing_wherever_they_are_killed() {
    if let Some(order) = order() {
        return learn_until_killed(Path::new(&order));
    }
    let (folder, mut known) = (Folder::new(), BTreeMap::new());
    for pair in 0..60 {
        let is_killed = pair % 10 > 0;
        let names = [0, 1].map(|i| format!("{pair} {i}"));
        for mut child in names.each_ref().map(|name| start(&folder, name)) {
            if is_killed {
                thread::sleep(Duration::from_micros(fastrand::u64(..4000)));
                child.kill().unwrap();
            }
            assert!(child.wait().unwrap().success() || is_killed);
        }
        for name in names {
            let text = fs::read_to_string(folder.join(&name)).unwrap();
            known.insert(name, text.lines().last().unwrap().parse::<usize>().unwrap());
        }
        let found: BTreeMap<_, _> = folder.settled().into_iter().collect();
        for (name, size) in &known {
            let found = found.get(name);
            assert!(found == Some(size) || found == Some(&(size / 2)), "{name}: {found:?} of {size}");
        }
    }
    let written = known.values().map(|size| (LARGEST / size).ilog2()).sum::<u32>();
    assert!(written > 600, "most children are killed before they write anything: {written}");
}

/// Starts a child, and returns once it has remembered a size.
fn start(folder: &Folder, name: &str) -> Child {
    let test = "together::two_processes_at_once_lose_nothing_wherever_they_are_killed";
    let path = folder.join(name);
    let mut child = child::start(test, &folder.settings(path.to_str().unwrap())).unwrap();
    while !fs::metadata(&path).is_ok_and(|file| file.len() > 0) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it remembered anything");
        thread::sleep(Duration::from_millis(1));
    }
    child
}

/// Writes each size to `path` once it is remembered in the file next to `path`.
fn learn_until_killed(path: &Path) {
    let (cache, mut settled) =
        (PersistentCache::at(path.with_file_name("sizes.json")), File::create(path).unwrap());
    let (name, mut size) = (path.file_name().unwrap().to_str().unwrap(), LARGEST);
    while size > 1 {
        size = *batch(&cache, name, LARGEST, size / 2).last().unwrap();
        settled.write_all(format!("{size}\n").as_bytes()).unwrap();
    }
}

#[test]
fn threads_lose_nothing_whether_they_share_a_cache_or_only_its_file() {
    const THREADS: usize = 8;
    let (folder, start) = (Folder::new(), Barrier::new(THREADS));
    let shared = folder.cache();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (shared, start, own) = (&shared, &start, folder.cache());
            scope.spawn(move || {
                start.wait();
                let cache = if thread % 2 == 0 { shared } else { &own };
                (0..6).for_each(|i| drop(batch(cache, &format!("{thread} {i}"), 64, 1 << i)));
            });
        }
    });
    let all = (0..THREADS).flat_map(|thread| (0..6).map(move |i| (format!("{thread} {i}"), 1 << i)));
    assert_eq!(folder.settled(), all.collect::<Vec<_>>());
}
