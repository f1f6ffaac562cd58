//! Selection of the cache for calls that name none. One test, because the selection is process-wide.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

use toma::cache::{Entry, Place, Remembered, SizeCache, set_default};
use toma::classify::OutOfMemory;
use toma::{DefaultCache, GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::child::alone;
use crate::kit::fits;

/// A cache that records the last size it was asked to remember.
#[derive(Debug, Default)]
struct Custom(Mutex<Option<Remembered>>);

impl SizeCache for Custom {
    fn shared() -> &'static Self {
        static SHARED: LazyLock<Custom> = LazyLock::new(|| {
            // A cache may use the library while it is constructed.
            execute::range(0..4, 4, |_, _| ());
            set_default::<NoCache>();
            Custom::default()
        });
        &SHARED
    }

    fn recall(&self, _: &Place<'_>) -> Option<Remembered> {
        self.0.lock().unwrap().clone()
    }

    fn remember(&self, _: &Place<'_>, learned: Remembered) {
        *self.0.lock().unwrap() = Some(learned);
    }
}

/// A cache whose construction panics.
#[derive(Debug)]
struct Broken;

impl SizeCache for Broken {
    fn shared() -> &'static Self {
        panic!("no cache today");
    }

    fn recall(&self, _: &Place<'_>) -> Option<Remembered> {
        unreachable!()
    }

    fn remember(&self, _: &Place<'_>, _: Remembered) {
        unreachable!()
    }
}

#[toma::batch(initial = 32)]
fn unnamed(size: usize, limit: usize, tried: &mut Vec<usize>) -> Result<(), OutOfMemory> {
    tried.push(size);
    fits(size, limit)
}

#[inline(never)]
fn tried(limit: usize) -> Vec<usize> {
    let mut tried = Vec::new();
    unnamed(limit, &mut tried).unwrap();
    tried
}

/// Counts the entries of this file, because other tests use the shared caches, too.
fn entries_of_this_file(entries: &[Entry]) -> usize {
    entries.iter().filter(|entry| entry.name.starts_with(module_path!())).count()
}

#[test]
fn the_default_can_be_chosen() {
    alone("caches::default::the_default_can_be_chosen", || {
        assert_eq!(tried(8), [32, 16, 8]);
        assert_eq!(tried(8), [8]);
        assert_eq!(
            entries_of_this_file(&StacktraceMemoryCache::shared().entries()),
            1,
            "unless chosen otherwise"
        );

        set_default::<GlobalCache>();
        assert_eq!(tried(8), [32, 16, 8]);
        assert_eq!(entries_of_this_file(&GlobalCache::shared().entries()), 1);
        assert_eq!(thread::spawn(|| tried(8)).join().unwrap(), [8]);

        set_default::<Custom>();
        assert_eq!(tried(4), [32, 16, 8, 4]);
        assert_eq!(tried(4), [4]);
        assert_eq!(Custom::shared().0.lock().unwrap().as_ref().unwrap().settled, 4);
        // A thread that has looked up the default before sees the change, too.
        let (ready, go) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let looking = scope.spawn(|| {
                assert_eq!(tried(4), [4]);
                ready.store(true, Ordering::Release);
                while !go.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                tried(4)
            });
            while !ready.load(Ordering::Acquire) {
                thread::yield_now();
            }
            set_default::<NoCache>();
            go.store(true, Ordering::Release);
            assert_eq!(looking.join().unwrap(), [32, 16, 8, 4]);
        });

        let broken = thread::spawn(set_default::<Broken>).join();
        assert_eq!(broken.unwrap_err().downcast_ref(), Some(&"no cache today"));
        assert_eq!(tried(8), [32, 16, 8], "the one before stays");

        set_default::<StacktraceMemoryCache>();
        assert_eq!(tried(8), [8], "what it remembered is there still");
        many_threads_choose();
        set_default::<StacktraceMemoryCache>();
        assert_eq!(tried(8), [8]);
        assert_eq!(execute::with::<DefaultCache>().batch(3, |size| size), 3);
    });
}

/// In every order of threads, each call uses one of the caches, and the last selection wins in the end.
fn many_threads_choose() {
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for pass in 0..500 {
                    match (thread + pass) % 3 {
                        0 => set_default::<NoCache>(),
                        1 => set_default::<GlobalCache>(),
                        _ => set_default::<StacktraceMemoryCache>(),
                    }
                    let tried = tried(8);
                    assert!(tried == [8] || tried == [32, 16, 8], "{tried:?}");
                }
            });
        }
    });
}
