//! Threads that compute, read by address and save while others enter managers, evict and fetch: safe code never finds
//! memory that was freed.

use crate::ground;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tch::nn::VarStore;
use tch::{Kind, TchError, Tensor};
use toma_torch::offload::{Genoa, Lru, Manager, TensorRef};
use toma_torch::{Error, ErrorKind};

use crate::kit::{alone, cpu_device, manager, poisoned};
use crate::rounds::rounds;
use crate::storm::elements;

/// Large enough that the system takes its pages back when the memory is freed.
const SIZE: i64 = 256;

fn weights() -> Tensor {
    Tensor::arange(SIZE * SIZE, ground::floats()).view([SIZE, SIZE]) * 1e-3
}

/// Returns the result, or `None` if the tensor was refused as evicted; any other error fails the test.
fn found<T>(outcome: Result<T, TchError>) -> Option<T> {
    let refused = |failed| {
        let error = Error::from(failed);
        assert_eq!(error.kind(), ErrorKind::Offloaded, "{error}");
        assert!(error.to_string().contains("pin it if it is read by its address"), "{error}");
    };
    outcome.map_err(refused).ok()
}

/// Runs `work` over and over on a thread that has not entered, which returns true if it found its tensors. Meanwhile
/// this thread runs `act`: so often, and on until a tenth as many runs of `work` have found them.
fn beside(times: usize, work: impl FnMut() -> bool + Send, act: impl Fn()) {
    let (together, is_over, found) = (Barrier::new(2), AtomicBool::new(false), AtomicUsize::new(0));
    let mut work = work;
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            together.wait();
            while !is_over.load(Ordering::Relaxed) {
                found.fetch_add(usize::from(work()), Ordering::Relaxed);
            }
        });
        together.wait();
        let (clock, mut acts) = (Instant::now(), 0);
        while acts < times || found.load(Ordering::Relaxed) <= times / 10 {
            if worker.is_finished() || clock.elapsed() > Duration::from_secs(60) {
                break;
            }
            act();
            acts += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        worker.join().unwrap();
    });
    let found = found.into_inner();
    assert!(found > times / 10, "only {found} runs found their tensors");
}

/// Multiplies a tensor by itself, and returns true if it was found. Then the product is right.
fn multiplies<'e>(weights: &Tensor, expected: &'e [f32]) -> impl FnMut() -> bool + Send + use<'e> {
    let theirs = weights.shallow_clone();
    move || {
        let product = found(theirs.f_matmul(&theirs)).map(|product| elements(&product).unwrap());
        assert!(product.as_ref().is_none_or(|product| product == expected));
        product.is_some()
    }
}

fn goes_and_comes(handle: &TensorRef) {
    // A tensor that the other thread is using is not evicted.
    let _stays = handle.offload();
    if let Err(error) = handle.fetch() {
        assert!(error.to_string().contains("parked"), "{error}");
    }
}

/// A thread is inside an operator when the first manager is made and its argument evicted.
#[test]
fn an_operator_that_began_before_there_was_a_manager_finds_its_arguments() {
    poisoned("threads::an_operator_that_began_before_there_was_a_manager_finds_its_arguments", || {
        let _alone = alone();
        let weights = weights();
        let expected = elements(&weights.matmul(&weights)).unwrap();
        for _ in 0..rounds(50, 1000) {
            beside(1, multiplies(&weights, &expected), || {
                let manager = manager(Lru);
                let _entered = manager.enter().unwrap();
                goes_and_comes(&manager.adopt(&weights));
            });
        }
    });
}

#[test]
fn an_operator_finds_what_a_handle_evicts_while_no_thread_has_entered() {
    poisoned("threads::an_operator_finds_what_a_handle_evicts_while_no_thread_has_entered", || {
        let _alone = alone();
        let weights = weights();
        let expected = elements(&weights.matmul(&weights)).unwrap();
        let handle = manager(Lru).adopt(&weights);
        beside(rounds(300, 3000), multiplies(&weights, &expected), || goes_and_comes(&handle));
    });
}

#[test]
fn an_operator_within_one_manager_finds_what_another_one_evicts() {
    poisoned("threads::an_operator_within_one_manager_finds_what_another_one_evicts", || {
        let _alone = alone();
        let weights = weights();
        let expected = elements(&weights.matmul(&weights)).unwrap();
        let (first, second) = (manager(Lru), manager(Lru));
        let theirs = weights.shallow_clone();
        let expected = &expected;
        let computes = move || {
            let _entered = first.enter().unwrap();
            assert_eq!(elements(&theirs.matmul(&theirs)).unwrap(), *expected);
            true
        };
        let handle = second.adopt(&weights);
        beside(rounds(300, 3000), computes, || goes_and_comes(&handle));
    });
}

/// `copy_data` of a contiguous tensor runs no operator, and reads by address.
#[test]
fn memory_that_another_thread_reads_by_its_address_is_there_while_it_is_evicted() {
    poisoned("threads::memory_that_another_thread_reads_by_its_address_is_there_while_it_is_evicted", || {
        let _alone = alone();
        let weights = weights();
        let expected = elements(&weights).unwrap();
        let manager = manager(Lru);
        let _entered = manager.enter().unwrap();
        let handle = manager.adopt(&weights);
        let theirs = weights.shallow_clone();
        let expected = &expected;
        let is_right = move |read: Option<Vec<f32>>| {
            assert!(read.as_ref().is_none_or(|elements| elements == expected));
            read.is_some()
        };
        let reads = move || is_right(found(elements(&theirs)));
        beside(rounds(3000, 30_000), reads, || goes_and_comes(&handle));
        let flat = weights.view([-1]);
        let asks = move || is_right(found(Vec::<f32>::try_from(&flat)));
        beside(rounds(1000, 10_000), asks, || goes_and_comes(&handle));
    });
}

#[test]
fn variables_that_another_thread_saves_are_whole_while_they_are_evicted() {
    poisoned("threads::variables_that_another_thread_saves_are_whole_while_they_are_evicted", || {
        let _alone = alone();
        let variables = VarStore::new(ground::device());
        let expected: Vec<_> = (0..4)
            .map(|at| elements(&variables.root().var_copy(&format!("weights{at}"), &weights())).unwrap())
            .collect();
        let manager = manager(Lru);
        let _entered = manager.enter().unwrap();
        let handles = manager.adopt_all(&variables);
        let saves = || {
            let mut saved = Vec::new();
            let is_saved = found(variables.save_to_stream(&mut saved)).is_some();
            if is_saved {
                let loaded = Tensor::load_multi_from_stream(std::io::Cursor::new(saved)).unwrap();
                assert_eq!(loaded.len(), 4);
                for (at, (_, tensor)) in loaded.iter().enumerate() {
                    assert!(elements(tensor).unwrap() == expected[at]);
                }
            }
            is_saved
        };
        beside(rounds(200, 2000), saves, || handles.iter().for_each(goes_and_comes));
    });
}

/// Handles, parked storages and prefetching threads outlive their manager; a manager per epoch is usual.
#[test]
fn managers_follow_each_other_while_handles_of_the_earlier_ones_live() {
    poisoned("threads::managers_follow_each_other_while_handles_of_the_earlier_ones_live", || {
        let _alone = alone();
        let weights = weights();
        let expected = elements(&weights).unwrap();
        let mut handles: Vec<TensorRef> = Vec::new();
        for round in 0..rounds(100, 1000) {
            let manager = if round % 2 == 0 { manager(Genoa) } else { manager(Lru) };
            let manager = manager.budget(ground::allocated_bytes() + (8 << 20));
            let _entered = manager.enter().unwrap();
            handles.push(manager.adopt(&weights));
            let theirs = handles.split_off(handles.len() / 2);
            thread::scope(|scope| {
                scope.spawn(move || theirs.iter().for_each(goes_and_comes));
                assert_eq!(elements(&(&weights * 1.0)).unwrap(), expected);
                let parked = manager.park();
                let _parked = handles.iter().try_for_each(TensorRef::fetch);
                drop(parked);
            });
            handles.extend((0..3).map(|_| manager.adopt(&weights)));
            handles.drain(..handles.len().saturating_sub(8));
        }
        handles[0].fetch().unwrap();
        assert_eq!(elements(&weights).unwrap(), expected);
    });
}

/// No manager observes the write of an operator that began before the first manager was made.
#[test]
fn writes_of_an_operator_that_began_before_the_manager_are_kept() {
    poisoned("threads::writes_of_an_operator_that_began_before_the_manager_are_kept", || {
        tch::set_num_threads(1);
        ground::count();
        let factor = Tensor::rand([1024, 1024], ground::floats());
        let expected = elements(&factor.matmul(&factor)).unwrap();
        let product = Tensor::zeros([1024, 1024], ground::floats());
        let [theirs, begins] = [product.shallow_clone(), factor];
        let writer = thread::spawn(move || {
            tch::set_num_threads(1);
            let _written = begins.f_matmul_out(&theirs, &begins).unwrap();
        });
        // The operator has begun once it has written its first elements.
        while product.double_value(&[0, 0]) == 0.0 && !writer.is_finished() {
            thread::yield_now();
        }
        // A plain manager, because the one of the other tests overwrites memory of evicted storages.
        let manager = Manager::new(&cpu_device());
        let handle = manager.adopt(&product);
        handle.offload().unwrap();
        writer.join().unwrap();
        let mut bytes = vec![0_u8; 4 << 20];
        handle.read(&mut bytes).unwrap();
        let read: Vec<_> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
        assert_eq!(read, expected);
        let _entered = manager.enter().unwrap();
        let rows = Tensor::arange(3, (Kind::Int64, ground::device()));
        assert_eq!(elements(&product.index_select(0, &rows)).unwrap(), expected[..3 << 10]);
        assert_eq!(manager.report().gathers, 1, "{}", manager.report());
        handle.fetch().unwrap();
        assert_eq!(elements(&product).unwrap(), expected);
        handle.offload().unwrap();
        assert_eq!(elements(&(&product * 1.0)).unwrap(), expected);
    });
}

/// Storages share the counters by which they are found in use.
#[test]
fn tensors_of_another_thread_keep_none_from_being_evicted() {
    let _alone = alone();
    let manager = manager(Lru);
    let _entered = manager.enter().unwrap();
    let all: Vec<_> = (0..3000).map(|_| Tensor::ones([4], ground::floats())).collect();
    let handles: Vec<_> = all.iter().map(|tensor| manager.adopt(tensor)).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let rows = weights();
            while !is_over.load(Ordering::Relaxed) {
                drop((&rows + 1.0).matmul(&rows).relu());
            }
        });
        for _ in 0..10 {
            let outcome = manager.park().and_then(|parked| Ok(parked.resume()?));
            is_over.store(outcome.is_err(), Ordering::Relaxed);
            outcome.unwrap();
        }
        let outcomes: Vec<_> = handles.iter().map(TensorRef::offload).collect();
        is_over.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(Result::unwrap);
    });
}
