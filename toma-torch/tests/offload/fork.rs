//! A process that is forked while it has a manager.

#![expect(unsafe_code, reason = "std has no fork")]

use crate::ground;
use std::time::{Duration, Instant};

use tch::Tensor;
use toma_torch::offload::Flow;
use toma_torch::{Error, ErrorKind};

use crate::kit::{alone, entered, poisoned};

unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn _exit(status: i32) -> !;
    safe fn waitpid(child: i32, status: &mut i32, options: i32) -> i32;
    safe fn kill(child: i32, signal: i32) -> i32;
}

const WITHOUT_WAITING: i32 = 1;

/// Returns the wait status of a child that runs `child`. A child that hangs is killed.
fn status_of(child: impl FnOnce() -> bool) -> i32 {
    let number = fork();
    if number == 0 {
        _exit(i32::from(!child()));
    }
    let (mut status, begun) = (0, Instant::now());
    while waitpid(number, &mut status, WITHOUT_WAITING) == 0 {
        if begun.elapsed() > Duration::from_secs(30) {
            kill(number, 9);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    status
}

#[test]
fn a_child_gets_an_error_and_does_not_wait_for_threads_that_it_lacks() {
    poisoned("fork::a_child_gets_an_error_and_does_not_wait_for_threads_that_it_lacks", || {
        let _alone = alone();
        let (manager, _entered) = entered(ground::allocated_bytes() + (3 << 20), Flow::default());
        let weights = [0, 1, 2, 3].map(|_| Tensor::ones([512, 512], ground::floats()));
        let step = || weights.iter().try_fold(Tensor::ones([512, 512], ground::floats()), |x, w| x.f_mm(w));
        for _ in 0..6 {
            drop(manager.step(step).unwrap());
        }
        let handle = manager.adopt(&weights[0]);
        let refused = |error: Error| {
            error.kind() == ErrorKind::Unsupported && error.to_string().contains("this process was forked")
        };
        let status = status_of(|| {
            step().is_err_and(|error| error.to_string().contains("this process was forked"))
                && handle.fetch().is_err_and(refused)
                && handle.offload().is_err_and(refused)
                && manager.park().is_err_and(refused)
                && manager.fetch_all().is_err_and(refused)
                && manager.enter().is_err_and(refused)
        });
        assert_eq!(status, 0, "the wait status of the child");
        drop(step().unwrap());
    });
}
