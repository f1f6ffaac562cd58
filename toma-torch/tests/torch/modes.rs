//! Modes of a thread are put back whatever ends an attempt, without a word from the body.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::catch_unwind;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;

use tch::{TchError, Tensor};
use toma::execute;
use toma_core::cache::NoCache;
use toma_torch::ModeGuard;
use toma_torch::cpu::Budget;

use crate::stage::{FLOATS, ROW, alone, panic_of, printed_by, rows, size};

/// Whether operators of this thread record gradients.
fn records() -> bool {
    let weight = Tensor::ones([2], FLOATS).set_requires_grad(true);
    (weight * 2.0).requires_grad()
}

#[test]
fn grad_mode_survives_a_panic_inside_no_grad_and_with_grad() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(4 * ROW);
    let mut modes = Vec::new();
    let printed = printed_by(|| {
        execute::with::<NoCache>().batch(8, |batch_size| {
            modes.push(records());
            tch::no_grad(|| drop(rows(batch_size)));
        });
        assert!(records());
        let _off = tch::no_grad_guard();
        execute::with::<NoCache>().batch(8, |batch_size| {
            modes.push(records());
            tch::with_grad(|| drop(rows(batch_size)));
        });
        assert!(!records());
    });
    assert_eq!((modes, printed), (vec![true, true, false, false], 0));
}

#[test]
fn a_retry_trains_after_a_panic_inside_no_grad() {
    let _alone = alone();
    let weight = Tensor::ones([1024], FLOATS).set_requires_grad(true);
    let _budget = Budget::beyond_allocated(20 * ROW);
    execute::with::<NoCache>().batch(16, |batch_size| {
        let target = tch::no_grad(|| rows(batch_size) + 1.0);
        (&target * &weight).sum(tch::Kind::Float).backward();
    });
    assert_eq!(weight.grad().double_value(&[3]), 4.0);
}

#[test]
fn what_is_passed_on_leaves_the_modes_of_before() {
    let _alone = alone();
    let budget = Budget::beyond_allocated(ROW - 1);
    let body = |_| tch::no_grad(|| drop(rows(1)));
    panic_of(|| execute::with::<NoCache>().batch(2, body));
    drop(budget);
    assert!(records());
    panic_of(|| execute::with::<NoCache>().batch(2, |_| tch::no_grad(|| drop(rows(1).reshape([3])))));
    assert!(records());
}

#[test]
fn what_an_attempt_that_succeeds_sets_stays() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(4 * ROW);
    let _modes = ModeGuard::new();
    let mut seen = Vec::new();
    execute::with::<NoCache>()
        .batch(8, |batch_size| -> Result<(), TchError> {
            seen.push(records());
            std::mem::forget(tch::no_grad_guard());
            Tensor::f_zeros([size(batch_size), 1024], FLOATS).map(drop)
        })
        .unwrap();
    assert_eq!(seen, [true, true], "of an error that was retried nothing stays");
    assert!(!records());
}

#[test]
fn an_inner_loop_that_retries_leaves_the_outer_bodys_modes() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(4 * ROW);
    let mut outers = Vec::new();
    let printed = printed_by(|| {
        execute::with::<NoCache>().batch(8, |outer| {
            outers.push(records());
            tch::no_grad(|| {
                let inner = execute::with::<NoCache>().min(outer).batch(8, |inner| {
                    assert!(!records());
                    tch::with_grad(|| drop(rows(inner)));
                    inner
                });
                assert!(!records());
                assert_eq!((outer, inner), (4, 4));
            });
        });
    });
    assert_eq!((outers, printed), (vec![true, true], 0));
    assert!(records());
}

#[test]
fn two_threads_keep_their_own() {
    let _alone = alone();
    let work = |on: bool| {
        let _off = (!on).then(tch::no_grad_guard);
        let body = |batch_size| {
            assert_eq!(records(), on);
            let too_much = || assert!(batch_size <= 2, "CUDA out of memory.");
            if on { tch::no_grad(too_much) } else { tch::with_grad(too_much) }
        };
        (0..50).for_each(|_| execute::with::<NoCache>().batch(8, body));
        records() == on
    };
    let [one, other] = [true, false].map(|on| thread::spawn(move || work(on)));
    assert!(one.join().unwrap() && other.join().unwrap());
}

/// Is pending once.
async fn pause() {
    let mut first = true;
    poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Holds a guard across its awaits, in an attempt that fails and in one that succeeds.
#[toma::batch(initial = 8, cache = NoCache)]
async fn without_gradients(batch_size: usize, begun: &Cell<u32>) -> usize {
    begun.set(begun.get() + 1);
    let _off = tch::no_grad_guard();
    pause().await;
    assert!(!records());
    tch::with_grad(|| drop(rows(batch_size)));
    pause().await;
    assert!(!records());
    batch_size
}

#[test]
fn a_task_that_waits_or_fails_leaves_the_thread_its_modes() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(4 * ROW);
    let begun = Cell::new(0);
    let mut task = pin!(without_gradients(&begun));
    let done = loop {
        let result = poll(task.as_mut());
        assert!(records());
        if let Poll::Ready(done) = result {
            break done;
        }
    };
    assert_eq!((done, begun.get()), (4, 2));
}

#[test]
fn a_task_dropped_between_polls_changes_nothing() {
    let _alone = alone();
    for off in [false, true] {
        let begun = Cell::new(0);
        let mut task = Box::pin(without_gradients(&begun));
        assert!(poll(task.as_mut()).is_pending());
        let _off = off.then(tch::no_grad_guard);
        drop(task);
        assert_eq!((records(), begun.get()), (!off, 1));
    }
}

#[test]
fn a_task_moves_between_threads_with_its_modes() {
    #[toma::batch(initial = 8, cache = NoCache)]
    async fn moving(batch_size: usize) -> usize {
        let _off = tch::no_grad_guard();
        pause().await;
        assert!(!records());
        tch::with_grad(|| drop(rows(batch_size)));
        pause().await;
        assert!(!records());
        batch_size
    }
    let _alone = alone();
    let _budget = Budget::beyond_allocated(4 * ROW);
    let mut task = Box::pin(moving());
    let mut threads = 0;
    let done = loop {
        threads += 1;
        let work = move || {
            let result = poll(task.as_mut());
            (task, result, records())
        };
        let (back, result, thread_records) = thread::spawn(work).join().unwrap();
        assert!(thread_records, "thread {threads}");
        task = back;
        if let Poll::Ready(done) = result {
            break done;
        }
    };
    assert_eq!((done, threads), (4, 5));
}

#[test]
fn without_a_guard_the_mode_is_lost() {
    let _alone = alone();
    // The reason for the guards. When this fails tch has mended it, and they can go.
    let guard = ModeGuard::new();
    let failed = catch_unwind(|| tch::no_grad(|| panic!("CUDA out of memory.")));
    assert!(failed.is_err());
    assert!(!records());
    drop(guard);
    assert!(records());
}

#[test]
fn guards_nest() {
    let _alone = alone();
    let outer = ModeGuard::new();
    let off = tch::no_grad_guard();
    let inner = ModeGuard::new();
    tch::with_grad(|| std::mem::forget(inner));
    assert!(!records());
    drop(outer);
    assert!(records());
    drop(off);
    assert!(records());
}
