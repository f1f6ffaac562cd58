//! The three roads by which out of memory arrives: an error, a panic, and an exception in backward.

use std::cell::{Cell, RefCell};

use tch::{TchError, Tensor};
use toma_core::cache::NoCache;
use toma_core::execute;
use toma_torch::cpu::{self, Budget};

use crate::stage::{FLOATS, ROW, alone, panic_of, printed_by, rows, size};

/// What the attempts of a call saw.
#[derive(Debug, Default)]
struct Log {
    sizes: RefCell<Vec<usize>>,
    levels: RefCell<Vec<u64>>,
}

impl Log {
    fn attempt(&self, size: usize) {
        self.sizes.borrow_mut().push(size);
        self.levels.borrow_mut().push(cpu::allocated_bytes());
    }

    /// The sizes are these, and each attempt began with the bytes the first began with.
    #[track_caller]
    fn check(&self, sizes: &[usize]) {
        assert_eq!(*self.sizes.borrow(), sizes);
        let levels = self.levels.borrow();
        assert!(levels.iter().all(|level| *level == levels[0]), "{levels:?}");
    }
}

#[test]
fn an_error_shrinks_and_leaves_nothing_allocated() {
    let _alone = alone();
    let (log, before) = (Log::default(), cpu::allocated_bytes());
    let _budget = Budget::beyond_allocated(20 * ROW);
    let done = execute::with::<NoCache>().batch(64, |batch_size| -> Result<usize, TchError> {
        log.attempt(batch_size);
        let _held = Tensor::f_zeros([4, 1024], FLOATS)?;
        let _more = Tensor::f_zeros([size(batch_size), 1024], FLOATS)?;
        Ok(batch_size)
    });
    assert_eq!(done.unwrap(), 16);
    log.check(&[64, 32, 16]);
    assert_eq!(cpu::allocated_bytes(), before);
}

#[test]
fn a_panic_shrinks_without_a_word_and_leaves_nothing_allocated() {
    let _alone = alone();
    let (log, before) = (Log::default(), cpu::allocated_bytes());
    let _budget = Budget::beyond_allocated(20 * ROW);
    let printed = printed_by(|| {
        execute::with::<NoCache>().range(0..50, 64, |start, end| {
            log.attempt(end - start);
            let held = rows(4);
            let _ = rows(end - start) + held.narrow(0, 0, 1);
        });
    });
    // A sum takes as much as what is summed.
    log.check(&[50, 25, 12, 6, 6, 6, 6, 6, 6, 6, 6, 2]);
    assert_eq!(printed, 0);
    assert_eq!(cpu::allocated_bytes(), before);
}

/// Forward fits where backward does not; `forward` counts the attempts that reached backward.
fn square_of_weight(weight: &Tensor, batch_size: usize, forward: &Cell<usize>) -> Result<Tensor, TchError> {
    let loss =
        weight.unsqueeze(0).expand([size(batch_size), 1024], false).f_square()?.f_sum(tch::Kind::Float)?;
    forward.set(forward.get() + 1);
    Ok(loss)
}

#[test]
fn an_exception_in_backward_shrinks_whether_it_comes_as_an_error_or_as_a_panic() {
    let _alone = alone();
    let weight = Tensor::ones([1024], FLOATS).set_requires_grad(true);
    for panics in [false, true] {
        let (log, forward) = (Log::default(), Cell::new(0));
        let budget = Budget::beyond_allocated(20 * ROW);
        let printed = printed_by(|| {
            let outcome = execute::with::<NoCache>().batch(16, |batch_size| -> Result<(), TchError> {
                log.attempt(batch_size);
                let loss = square_of_weight(&weight, batch_size, &forward)?;
                if panics {
                    loss.backward();
                    return Ok(());
                }
                loss.f_backward()
            });
            outcome.unwrap();
        });
        drop(budget);
        log.check(&[16, 8, 4]);
        assert_eq!(forward.get(), 3, "forward fits at once: backward is what fails");
        assert_eq!(printed, 0);
        assert_eq!(weight.grad().double_value(&[7]), 8.0, "of the last attempt alone");
        weight.shallow_clone().zero_grad();
    }
}

#[test]
fn at_the_floor_the_error_and_the_panic_go_through_unchanged() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let _budget = Budget::beyond_allocated(ROW - 1);
    let error = execute::with::<NoCache>()
        .batch(4, |batch_size| Tensor::f_zeros([size(batch_size), 1024], FLOATS))
        .unwrap_err();
    assert!(matches!(error, TchError::Torch(_)), "{error:?}");
    let text = Cell::new(String::new());
    let printed = printed_by(|| {
        text.set(panic_of(|| {
            execute::with::<NoCache>().batch(4, |batch_size| drop(rows(batch_size)));
        }));
    });
    assert!(text.take().contains("CPU out of memory: tried to allocate 4096 bytes"));
    assert_eq!(printed, 1);
    assert_eq!(cpu::allocated_bytes(), before);
}

#[test]
fn what_is_not_out_of_memory_goes_through_on_the_first_attempt() {
    let _alone = alone();
    let attempts = Cell::new(0);
    let error = execute::with::<NoCache>().batch(8, |_| {
        attempts.set(attempts.get() + 1);
        rows(2).f_reshape([3, 3])
    });
    assert!(error.unwrap_err().to_string().contains("frame #"), "what is passed on keeps its backtrace");
    assert_eq!(attempts.get(), 1);
}
