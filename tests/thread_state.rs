//! Thread-local modes of a library: a failed attempt leaves no mode behind, and each task has modes of its own.

#[path = "common/executor.rs"]
mod executor;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;
use std::thread;

use toma::classify::OutOfMemory;
use toma::ranks::{Group as _, Member, threads};
use toma::{NoCache, execute};
use toma_core::thread_state::{Saved, ThreadState, register, would_retry_out_of_memory};

use crate::executor::{pause, poll};

thread_local! {
    static MODE: Cell<u64> = const { Cell::new(0) };
    static RECOVERED: Cell<u32> = const { Cell::new(0) };
}

#[derive(Debug)]
struct Library;

impl ThreadState for Library {
    fn save(&self) -> Saved {
        Saved([0, 0, MODE.get(), 0, 0])
    }

    fn restore(&self, saved: &Saved) {
        MODE.set(saved.0[2]);
    }

    fn recover(&self, saved: &Saved) {
        self.restore(saved);
        RECOVERED.set(RECOVERED.get() + 1);
    }
}

/// Resets this thread to mode 1 and to its initial state.
fn stage() {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| register(&Library).unwrap());
    MODE.set(1);
}

/// A mode that ends with its guard, as in many libraries.
struct Within(u64);

impl Within {
    fn new(mode: u64) -> Self {
        Self(MODE.replace(mode))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}

fn out_of_memory<T>() -> Result<T, OutOfMemory> {
    Err(OutOfMemory::new(None))
}

#[test]
fn there_is_room_for_one_library() {
    stage();
    assert!(register(&Library).is_err());
}

#[test]
fn a_panic_and_an_error_that_are_retried_leave_the_modes_of_before() {
    stage();
    for panics in [false, true] {
        let mut seen = Vec::new();
        let undone = Cell::new(0);
        let undo = |_| undone.set(undone.get() + MODE.get());
        let size = execute::with::<NoCache>().before_retry(undo).batch(8, |batch_size| {
            seen.push(MODE.replace(batch_size as u64 + 10));
            match batch_size {
                0..=2 => Ok(batch_size),
                _ if panics => panic!("CUDA out of memory."),
                _ => out_of_memory(),
            }
        });
        assert_eq!((size.unwrap(), seen, undone.get()), (2, vec![1, 1, 1], 2));
        assert_eq!(MODE.replace(1), 12, "what an attempt that succeeds sets stays");
    }
}

/// The first rank succeeds, and repeats its attempt with the one that has failed.
#[test]
fn an_attempt_that_ranks_repeat_begins_with_the_modes_of_before() {
    let run = |rank: Member| {
        stage();
        let mut seen = Vec::new();
        let size = execute::with::<NoCache>().ranks(&rank).batch(8, |batch_size| {
            seen.push(MODE.replace(batch_size as u64 + 10));
            if rank.rank() == 1 && batch_size > 4 { out_of_memory() } else { Ok(batch_size) }
        });
        (size.unwrap(), seen)
    };
    let seen: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = threads(2).into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
        running.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    assert_eq!(seen, [(4, vec![1, 1]), (4, vec![1, 1])]);
}

#[test]
fn a_failure_that_is_passed_on_restores_the_modes_too() {
    stage();
    let error = execute::with::<NoCache>().batch(1, |_| {
        MODE.set(7);
        out_of_memory::<()>()
    });
    assert!(error.is_err());
    assert_eq!(MODE.get(), 1);
    for words in ["CUDA out of memory.", "wrong shape"] {
        let body = |_| -> () {
            MODE.set(7);
            panic!("{words}");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| execute::with::<NoCache>().batch(1, body))).is_err());
        assert_eq!(MODE.get(), 1);
    }
    let error = execute::with::<NoCache>().batch(8, |_| {
        MODE.set(7);
        "x".parse::<u8>()
    });
    assert!(error.is_err());
    assert_eq!(MODE.get(), 1);
}

#[test]
fn an_inner_loop_comes_back_to_the_modes_of_the_outer_body() {
    stage();
    let done = execute::with::<NoCache>().batch(4, |outer| {
        let _within = Within::new(2);
        let inner = execute::with::<NoCache>().min(2).batch(8, |inner| {
            assert_eq!(MODE.get(), 2);
            MODE.set(3);
            assert!(inner * outer <= 8, "CUDA out of memory.");
            inner
        });
        assert_eq!(MODE.replace(2), 3);
        inner
    });
    assert_eq!((done, MODE.get()), (2, 1));
    // An inner call that gives up leaves the mode to the outer call.
    let mut outers = Vec::new();
    let size = execute::with::<NoCache>().batch(4, |outer| {
        outers.push(MODE.replace(2));
        execute::with::<NoCache>().min(4).batch(8, |inner| {
            MODE.set(3);
            assert!(inner * outer <= 8, "CUDA out of memory.");
        });
        outer
    });
    assert_eq!((size, outers), (2, vec![1, 1]));
}

#[test]
fn a_library_is_notified_where_out_of_memory_would_be_retried() {
    stage();
    let mut retried = Vec::new();
    execute::with::<NoCache>().batch(2, |outer| {
        execute::with::<NoCache>()
            .max_attempts(1)
            .batch(1, |_| retried.push((outer, would_retry_out_of_memory())));
        retried.push((outer, would_retry_out_of_memory()));
        assert!(outer == 1, "CUDA out of memory.");
    });
    assert_eq!(retried, [(2, true), (2, true), (1, false), (1, false)]);
    assert!(!would_retry_out_of_memory());
}

#[test]
fn a_piece_like_the_one_before_it_would_be_retried_likewise() {
    stage();
    let pieces = |items, initial| {
        let mut pieces = Vec::new();
        execute::with::<NoCache>().range(0..items, initial, |start, end| {
            pieces.push((end - start, would_retry_out_of_memory()));
        });
        pieces
    };
    assert_eq!(pieces(9, 2), [(2, true), (2, true), (2, true), (2, true), (1, false)]);
    assert_eq!(pieces(3, 1), [(1, false); 3]);
}

#[test]
fn threads_keep_their_own() {
    stage();
    let work = |mode: u64| {
        MODE.set(mode);
        for _ in 0..100 {
            execute::with::<NoCache>().batch(4, |batch_size| {
                assert_eq!(MODE.replace(99), mode);
                thread::yield_now();
                assert!(batch_size <= 2, "CUDA out of memory.");
                MODE.set(mode);
            });
        }
        MODE.get() == mode
    };
    let all = thread::scope(|scope| {
        let threads: Vec<_> = (2..6).map(|mode| scope.spawn(move || work(mode))).collect();
        threads.into_iter().all(|thread| thread.join().unwrap())
    });
    assert!(all);
}

/// Holds a guard across its awaits, in every attempt.
#[toma::batch(initial = 8, cache = NoCache)]
async fn guarded(size: usize, panics: bool) -> Result<usize, OutOfMemory> {
    let before = MODE.get();
    let _within = Within::new(100);
    pause().await;
    assert_eq!(MODE.get(), 100);
    if size > 4 {
        assert!(!panics, "CUDA out of memory.");
        return out_of_memory();
    }
    pause().await;
    assert_eq!(MODE.get(), 100);
    Ok(size + usize::try_from(before).unwrap() * 1000)
}

#[test]
fn a_task_that_waits_leaves_the_thread_its_modes() {
    stage();
    for panics in [false, true] {
        RECOVERED.set(0);
        let (mut one, mut other) = (pin!(guarded(panics)), pin!(guarded(panics)));
        // The other task begins in another mode, which belongs to it from then on.
        let mut results = (Poll::Pending, Poll::Pending);
        while results.0.is_pending() || results.1.is_pending() {
            if results.0.is_pending() {
                results.0 = poll(one.as_mut());
            }
            assert_eq!(MODE.replace(2), 1);
            if results.1.is_pending() {
                results.1 = poll(other.as_mut());
            }
            assert_eq!(MODE.replace(1), 2);
            assert!(!would_retry_out_of_memory());
        }
        assert_eq!(results, (Poll::Ready(Ok(1004)), Poll::Ready(Ok(2004))));
        assert_eq!(RECOVERED.get(), 2, "once for each attempt that failed, never between polls");
    }
}

#[test]
fn a_task_dropped_while_it_waits_changes_nothing() {
    stage();
    for polls in 0..4 {
        let mut task = Box::pin(guarded(polls % 2 == 0));
        for _ in 0..polls {
            assert!(poll(task.as_mut()).is_pending());
        }
        MODE.set(5);
        drop(task);
        assert_eq!(MODE.replace(1), 5, "after {polls} polls");
    }
}

#[test]
fn a_task_takes_its_modes_from_thread_to_thread() {
    stage();
    let mut task = Box::pin(guarded(false));
    let mut thread = 0;
    let done = loop {
        thread += 1;
        let work = move || {
            MODE.set(10 + thread);
            let result = poll(task.as_mut());
            (task, result, MODE.get())
        };
        let (back, result, mode) = thread::spawn(work).join().unwrap();
        assert_eq!(mode, 10 + thread, "each thread keeps its own");
        task = back;
        if let Poll::Ready(done) = result {
            break done;
        }
    };
    // The attempt that succeeded began on the third thread.
    assert_eq!((done.unwrap(), thread), (13004, 5));
}

#[test]
fn modes_that_a_task_set_for_good_stay_where_it_ends() {
    #[toma::batch(initial = 2, cache = NoCache)]
    async fn switch(size: usize) {
        pause().await;
        MODE.set(50);
        pause().await;
        assert!(size == 1, "CUDA out of memory.");
    }
    stage();
    let mut task = pin!(switch());
    while poll(task.as_mut()).is_pending() {
        assert_eq!(MODE.get(), 1);
    }
    assert_eq!(MODE.get(), 50);
}
