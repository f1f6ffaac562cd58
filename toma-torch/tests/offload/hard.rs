//! Threads, failures, callbacks, and the other contexts in which operators run.

#![expect(clippy::float_cmp, reason = "the same bits are meant")]

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::ground::{self, Budget};
use tch::nn::OptimizerConfig as _;
use tch::{Kind, TchError, Tensor};
use toma_core::NoCache;
use toma_core::execute;
use toma_torch::offload::{AroundOperators, Event, Eviction, Genoa, Lru, OperatorCall, Residency, TensorRef};
use toma_torch::{Error, checkpoint, dry_run};

use crate::kit::{alone, bits, entered, manager};
use crate::nets;

/// Two threads enter, and two never do.
#[test]
fn threads_compute_what_they_compute_alone() {
    let _alone = alone();
    let shared: Vec<_> =
        (0..8).map(|at| Tensor::full([128, 128], f64::from(at) * 0.01, ground::floats())).collect();
    let shared = &Mutex::new(shared);
    let own = || shared.lock().unwrap().iter().map(Tensor::shallow_clone).collect::<Vec<_>>();
    let sum = |tensors: &[Tensor]| {
        let product =
            tensors.iter().fold(Tensor::ones([128, 128], ground::floats()), |x, y| x.matmul(y).tanh());
        product.sum(Kind::Double).double_value(&[])
    };
    let expected = sum(&own());
    let manager = manager(Lru).budget(ground::allocated_bytes() + (10 << 16));
    let stays: Vec<_> = own().iter().map(|tensor| manager.adopt(tensor)).collect();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let inside: Vec<_> = (0..2)
            .map(|_| {
                let (tensors, manager) = (own(), manager.clone());
                scope.spawn(move || {
                    let _entered = manager.enter().unwrap();
                    (0..100).map(|_| sum(&tensors)).collect::<Vec<_>>()
                })
            })
            .collect();
        let outside: Vec<_> = (0..2)
            .map(|_| {
                let ends = &ends;
                scope.spawn(move || {
                    let mut right = 0;
                    while !ends.load(Ordering::Relaxed) {
                        let tensor = Tensor::full([64, 64], 2, ground::floats());
                        right += u64::from((&tensor * 3).sum(Kind::Double).double_value(&[]) == 24_576.0);
                    }
                    right
                })
            })
            .collect();
        for thread in inside {
            assert!(thread.join().unwrap().iter().all(|one| *one == expected));
        }
        ends.store(true, Ordering::Relaxed);
        for thread in outside {
            assert!(thread.join().unwrap() > 0);
        }
    });
    assert_eq!(manager.status().pinned, 0);
    drop(stays);
}

#[derive(Default)]
struct Seen {
    calls: AtomicU64,
    refuses: AtomicBool,
    panics: AtomicBool,
}

impl AroundOperators for Seen {
    fn before(&self, call: &OperatorCall<'_>) -> Result<(), Error> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics.load(Ordering::Relaxed), "a callback's own panic");
        if self.refuses.load(Ordering::Relaxed) && call.name == "aten::pow" {
            return Err(Error::from(TchError::Io(std::io::Error::other("not now"))));
        }
        Ok(())
    }
}

#[test]
fn callbacks_see_refuse_and_may_panic() {
    let _alone = alone();
    let seen = Arc::new(Seen::default());
    let events = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&events);
    let manager = manager(Lru)
        .around_operators(Arc::clone(&seen))
        .observer(move |event: &Event| received.lock().unwrap().push(event.clone()));
    let _entered = manager.enter().unwrap();
    let tensor = Tensor::ones([100], ground::floats());
    seen.refuses.store(true, Ordering::Relaxed);
    assert!(tensor.f_square().unwrap_err().to_string().contains("not now"));
    seen.refuses.store(false, Ordering::Relaxed);
    seen.panics.store(true, Ordering::Relaxed);
    let error = tensor.f_square().unwrap_err().to_string();
    assert!(error.contains("panicked before aten::"), "{error}");
    seen.panics.store(false, Ordering::Relaxed);
    manager.adopt(&tensor).offload().unwrap();
    assert_eq!(tensor.square().sum(Kind::Float).double_value(&[]), 100.0);
    assert!(seen.calls.load(Ordering::Relaxed) >= 4);
    assert!(matches!(
        events.lock().unwrap()[..],
        [
            Event::Offloaded { bytes: 400, is_copied: true, .. },
            Event::Fetched { bytes: 400, is_ahead: false, .. }
        ]
    ));
}

/// Panics again where the panic with it is dropped.
struct Twice;

impl Drop for Twice {
    fn drop(&mut self) {
        panic!("a payload's own panic");
    }
}

/// One tensor of two fits, so each fetch evicts the other, and its observer asks for the one that is fetched.
#[test]
fn an_observer_may_ask_for_the_tensor_that_is_being_fetched() {
    let _alone = alone();
    let handle: Arc<Mutex<Option<TensorRef>>> = Arc::default();
    let (asked, fetches) = (Arc::clone(&handle), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&fetches);
    let tensors = [1.0, 2.0].map(|value| Tensor::full([128, 128], value, ground::floats()));
    let manager = manager(Lru).budget(ground::allocated_bytes() - (1 << 15)).observer(move |event| {
        let Event::Offloaded { .. } = event else { return };
        let handle = asked.lock().unwrap().take();
        if let Some(handle) = handle {
            handle.fetch().unwrap();
            assert_eq!(handle.residency(), Residency::Resident);
            counted.fetch_add(1, Ordering::Relaxed);
            panic_any(Twice);
        }
    });
    let _entered = manager.enter().unwrap();
    let _known = tensors.each_ref().map(|tensor| manager.adopt(tensor));
    for _ in 0..2 {
        for (tensor, value) in tensors.iter().zip([1.0, 2.0]) {
            *handle.lock().unwrap() = Some(manager.adopt(tensor));
            manager.adopt(tensor).fetch().unwrap();
            assert_eq!(tensor.max().double_value(&[]), value);
        }
    }
    assert!(fetches.load(Ordering::Relaxed) > 1, "{fetches:?}");
}

#[test]
fn a_dry_run_fetches_nothing() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let weight = Tensor::ones([64, 64], ground::floats()).set_requires_grad(true);
    let handle = manager.adopt(&weight);
    handle.offload().unwrap();
    let fetches = manager.report().fetches;
    let trace = dry_run(|| weight.matmul(&weight).sum(Kind::Float).backward()).unwrap();
    assert!(trace.operators().len() > 2);
    assert_eq!((handle.residency(), manager.report().fetches), (Residency::Offloaded, fetches));
}

/// Activations saved by the tape may be evicted, and are fetched for the operators that are recomputed.
#[test]
fn regions_within_a_budget_compute_the_same() {
    let _alone = alone();
    let learned = |net: &nets::Net| {
        let mut optimizer = tch::nn::sgd(0.9, 0.0, 0.0, false).build(&net.variables, 1e-2).unwrap();
        tch::manual_seed(5);
        (0..4)
            .map(|_| {
                let loss = checkpoint::region(|| net.loss());
                optimizer.backward_step(&loss);
                bits(&loss)
            })
            .collect::<Vec<_>>()
    };
    let (before, expected) = (ground::allocated_bytes(), learned(&nets::transformer()));
    let peak = ground::peak_of(|| drop(learned(&nets::transformer())));
    let evictions: [(Box<dyn Eviction>, u64); 2] =
        [(Box::new(Lru), before + peak / 2), (Box::new(Genoa), u64::MAX / 2)];
    for (eviction, bytes) in evictions {
        let (manager, _entered) = entered(bytes, eviction);
        assert_eq!(learned(&nets::transformer()), expected);
        assert!(manager.report().fetches > 0, "{}", manager.report());
    }
}

/// Nothing moves before memory runs out, and then the same size succeeds.
#[test]
fn under_pressure_the_same_size_is_tried_again() {
    let _alone = alone();
    let weights = Tensor::ones([1 << 18], ground::floats());
    let manager = manager(Lru);
    let under = manager.on_pressure().unwrap();
    let handle = manager.adopt(&weights);
    let _budget = Budget::beyond_allocated(3 << 19);
    let mut sizes = Vec::new();
    execute::with::<NoCache>()
        .device(&manager)
        .batch(4, |size| -> Result<(), TchError> {
            sizes.push((size, handle.residency()));
            let _block = Tensor::f_zeros([i64::try_from(size).unwrap(), 1 << 17], ground::floats())?;
            Ok(())
        })
        .unwrap();
    assert_eq!(sizes, [(4, Residency::Resident), (4, Residency::Offloaded)]);
    handle.fetch().unwrap();
    drop(under);
    assert_eq!(weights.sum(Kind::Float).double_value(&[]), f64::from(1 << 18));
}
