//! Repeated failures leave nothing behind, also in a task that is given up, and where the system itself has no memory
//! left.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tch::{Kind, TchError, Tensor};
use toma::memory::{set_cpu_memory_limit, used_bytes};
use toma::report;
use toma_core::NoCache;
use toma_core::execute;

use crate::executor::pause;
use crate::ground::{self, Budget};
use crate::nets::{ROADS, Road};
use crate::resident;
use crate::stage::{ROW, alone, in_child, rows, size};

/// Makes this many rows; fails by an error or a panic, as `road` says.
fn rows_by(road: Road, count: usize) -> Result<Tensor, TchError> {
    road.of(Tensor::f_zeros([size(count), 1024], ground::floats()))
}

/// Runs out of memory 1,200 times. The first 200 fill caches that a process keeps for good.
fn leaves_memory_level(run_out_once: impl Fn()) {
    let resident_after = |times| {
        for _ in 0..times {
            run_out_once();
            assert_eq!(report::last().unwrap().out_of_memory, 1);
        }
        resident::bytes("VmRSS")
    };
    let [before, after] = [200, 1000].map(resident_after);
    assert!(after < before + (1 << 20), "{before} bytes before, {after} after");
}

/// Runs out of memory as often, and compares every allocated byte.
fn leaves_nothing_allocated(run_out_once: impl Fn()) {
    let _alone = alone();
    let before = ground::allocated_bytes();
    leaves_memory_level(run_out_once);
    assert_eq!(ground::allocated_bytes(), before);
}

/// Runs out of memory once, and retries.
fn run_out_forward(road: Road) {
    let _budget = Budget::beyond_allocated(ROW);
    let done = execute::with::<NoCache>().batch(2, |batch_size| rows_by(road, batch_size).map(drop));
    done.unwrap();
}

fn run_out_backward(road: Road) {
    let weight = Tensor::ones([1024], ground::floats()).set_requires_grad(true);
    // Two rows fit forward, one fits backward.
    let _budget = Budget::beyond_allocated(5 * ROW);
    let done = execute::with::<NoCache>().batch(2, |batch_size| {
        let loss = weight.unsqueeze(0).expand([size(batch_size), 1024], false).square().sum(Kind::Float);
        road.of(loss.f_backward())
    });
    done.unwrap();
}

#[test]
fn thousands_of_errors_panics_and_exceptions_in_backward() {
    if in_child("leaks::thousands_of_errors_panics_and_exceptions_in_backward") {
        for road in ROADS {
            leaves_nothing_allocated(|| run_out_forward(road));
            leaves_nothing_allocated(|| run_out_backward(road));
        }
    }
}

/// Errors of libtorch's own allocator, which would have a backtrace if they were read.
#[test]
fn a_thousand_errors_of_the_systems_own() {
    if in_child("leaks::a_thousand_errors_of_the_systems_own") {
        leaves_memory_level(|| {
            let done = execute::with::<NoCache>().batch(2, |batch_size| {
                Tensor::f_empty([if batch_size == 2 { 1 << 50 } else { 1 }], ground::floats()).map(drop)
            });
            done.unwrap();
        });
    }
}

/// Errors of libtorch's own allocator, which are not the typed ones.
#[test]
fn the_system_has_no_more() {
    if !in_child("leaks::the_system_has_no_more") {
        return;
    }
    let floats = 2 << 20;
    tch::set_num_threads(1);
    let weight = Tensor::ones([floats], ground::floats()).set_requires_grad(true);
    (&weight * &weight).sum(Kind::Float).backward();
    weight.shallow_clone().zero_grad();
    let limit = set_cpu_memory_limit(used_bytes().unwrap() + (48 << 20)).unwrap();
    let text = Tensor::f_zeros([16, floats], ground::floats()).unwrap_err().to_string();
    assert!(text.contains("DefaultCPUAllocator: can't allocate memory"), "{text}");
    for road in ROADS {
        let tried = RefCell::new(Vec::new());
        let work = |batch_size| {
            tried.borrow_mut().push(batch_size);
            road.of(Tensor::f_zeros([size(batch_size), floats], ground::floats())).map(drop)
        };
        execute::with::<NoCache>().batch(16, work).unwrap();
        assert_eq!(tried.take(), [16, 8, 4]);
    }
    let forward = Cell::new(0);
    let done = execute::with::<NoCache>().batch(4, |batch_size| {
        let loss =
            weight.unsqueeze(0).expand([size(batch_size), floats], false).f_square()?.f_sum(Kind::Float)?;
        forward.set(forward.get() + 1);
        loss.f_backward().map(|()| batch_size)
    });
    limit.restore().unwrap();
    let done = done.unwrap();
    assert!(done < 4 && forward.get() > 1, "{done} {}", forward.get());
    assert_eq!(weight.grad().double_value(&[5]), 2.0 * f64::from(u32::try_from(done).unwrap()));
}

/// Holds tensors while it waits, in every attempt.
#[toma::batch(initial = 8, cache = NoCache)]
async fn waits(batch_size: usize, road: Road) -> Result<usize, TchError> {
    let _held = rows(1);
    pause().await;
    let _more = rows_by(road, batch_size)?;
    pause().await;
    Ok(batch_size)
}

#[test]
fn a_task_that_is_given_up_drops_what_it_held() {
    let _alone = alone();
    let before = ground::allocated_bytes();
    let _budget = Budget::beyond_allocated(5 * ROW);
    let mut context = Context::from_waker(Waker::noop());
    for road in ROADS {
        let mut polls = 0;
        loop {
            let mut task = Box::pin(waits(road));
            let done = (0..polls).any(|_| task.as_mut().poll(&mut context).is_ready());
            drop(task);
            assert_eq!(ground::allocated_bytes(), before, "after {polls} polls");
            if done {
                break;
            }
            polls += 1;
        }
        // Each of two attempts waits once, then announces a retry; the last attempt waits twice.
        assert!(polls > 4, "{polls}");
        let mut task = pin!(waits(road));
        let done = std::iter::repeat_with(|| task.as_mut().poll(&mut context)).find(Poll::is_ready);
        assert!(matches!(done, Some(Poll::Ready(Ok(4)))));
    }
}
