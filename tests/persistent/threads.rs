//! Threads that share one cache.

use std::sync::Barrier;
use std::thread;

use crate::kit::{Folder, batch, settled};

#[test]
fn threads_lose_nothing_and_see_what_each_other_learned() {
    const THREADS: usize = 8;
    let folder = Folder::in_memory();
    let cache = folder.cache();
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, start) = (&cache, &start);
            scope.spawn(move || {
                start.wait();
                for i in 0..6 {
                    batch(cache, &format!("call {thread} {i}"), 64, 1 << i);
                    cache.entries();
                }
            });
        }
    });
    let all = settled(&folder.cache());
    assert_eq!(all.len(), THREADS * 6, "{all:?}");
}

#[test]
fn two_caches_on_one_file_in_one_process_merge() {
    let folder = Folder::in_memory();
    let start = Barrier::new(2);
    thread::scope(|scope| {
        for name in ["left", "right"] {
            let (folder, start) = (&folder, &start);
            scope.spawn(move || {
                start.wait();
                for i in 0..40 {
                    let each = folder.cache();
                    batch(&each, &format!("{name} {i}"), 64, 20);
                }
            });
        }
    });
    assert_eq!(settled(&folder.cache()).len(), 80);
}
