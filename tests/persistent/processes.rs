//! Processes that write at the same time.

use std::process::Child;

use toma::PersistentCache;

use crate::child;
use crate::kit::{Folder, batch, settled};

const PROCESSES: usize = 4;
const CALLS: usize = 25;

#[test]
fn four_that_write_at_once_lose_nothing() {
    if let Some(order) = child::order() {
        let (path, name) = order.split_once(' ').map(|(name, path)| (path, name)).unwrap();
        for i in 0..CALLS {
            // Each its own cache, so that each reads, merges and writes.
            batch(&PersistentCache::at(path), &format!("own {name} {i}"), 64, 20);
            batch(&PersistentCache::at(path), &format!("common {i}"), 64, 20);
        }
        return;
    }
    let folder = Folder::in_memory();
    let start = |name| {
        let order = format!("{name} {}", folder.file().display());
        let test = "processes::four_that_write_at_once_lose_nothing";
        child::command(test, &order, folder.path()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..PROCESSES).map(start).collect();
    for child in children {
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success() && said.is_empty(), "{said}");
    }
    let own = (0..PROCESSES).flat_map(|name| (0..CALLS).map(move |i| (format!("own {name} {i}"), 16)));
    let mut all: Vec<_> = own.chain((0..CALLS).map(|i| (format!("common {i}"), 16))).collect();
    all.sort();
    assert_eq!(settled(&folder.cache()), all);
    assert_eq!(folder.names(), ["sizes.json", "sizes.json.lock"]);
}
