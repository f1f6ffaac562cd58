//! All storages are evicted from the device, and fetched again.

use crate::ground;
use std::error::Error as _;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tch::{Kind, Tensor};
use toma_torch::ErrorKind;
use toma_torch::offload::{self, Flow, Lru, Manager, Parked, Residency};

use crate::kit::{Rule, alone, bits, cpu_device, entered, manager, train, train_with};
use crate::nets::{convolutions, perceptron};
use crate::rounds::rounds;

const MIB: i64 = 1 << 18;

/// A tensor of this many MiB.
fn mibs(count: i64) -> Tensor {
    Tensor::arange(count * MIB, ground::floats())
}

/// Returns the bits of the sum.
fn sum(tensor: &Tensor) -> u64 {
    tensor.sum(Kind::Double).double_value(&[]).to_bits()
}

/// Checks that a failed `park` parks nothing, and returns its error.
fn fails(manager: &Manager) -> toma_torch::Error {
    let before = (manager.status(), ground::allocated_bytes());
    let error = manager.park().expect_err("it cannot leave");
    assert_eq!((manager.status(), ground::allocated_bytes()), before, "{error}");
    error
}

#[test]
fn a_step_that_is_parked_in_its_middle_learns_what_it_would_have() {
    let _alone = alone();
    for net in [perceptron, convolutions] {
        let expected = train(&net(), Rule::Adam, 4);
        let before = ground::allocated_bytes();
        let (manager, _entered) = entered(u64::MAX, Lru);
        let net = net();
        let mut stayed = Vec::new();
        let learned = train_with(&net, Rule::Adam, 4, |_| {
            let held = ground::allocated_bytes() - before;
            let parked = manager.park().unwrap();
            assert!(parked.bytes() > 4 << 20, "{parked:?}");
            assert_eq!(held - parked.bytes(), ground::allocated_bytes() - before);
            stayed.push(ground::allocated_bytes() - before);
            parked.resume().unwrap();
            assert_eq!(ground::allocated_bytes() - before, held);
        });
        assert_eq!(learned.unwrap(), expected, "{}", net.name);
        assert!(stayed.iter().all(|bytes| *bytes < 64 << 10), "{stayed:?}");
    }
}

#[test]
fn an_evicted_storage_of_a_planned_step_stays_evicted() {
    let _alone = alone();
    let expected = train(&perceptron(), Rule::Sgd, 8);
    let (manager, _entered) = entered(ground::allocated_bytes() + (20 << 20), Flow::default());
    let idle = mibs(1);
    let handle = manager.adopt(&idle);
    let mut was_evicted = 0;
    let learned = train_with(&perceptron(), Rule::Sgd, 8, |_| {
        handle.offload().unwrap();
        was_evicted = was_evicted.max(manager.status().evicted);
        manager.park().unwrap().resume().unwrap();
        assert_eq!(handle.residency(), Residency::Offloaded, "{}", manager.status());
    });
    assert_eq!(learned.unwrap(), expected);
    assert!(was_evicted > 10, "{}", manager.report());
}

#[test]
fn an_allocation_that_fails_leaves_everything_parked() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX, Lru);
    let tensors = [mibs(1), mibs(2), mibs(1)];
    let expected: Vec<_> = tensors.iter().map(bits).collect();
    let mut parked = manager.park().unwrap();
    let held = (ground::allocated_bytes(), manager.status());
    for skip in 0..3 {
        let failure = ground::FailingAllocation::after(skip);
        parked = parked.resume().expect_err("an allocation fails").into_parked();
        assert!(failure.has_failed(), "{skip}");
        assert_eq!((ground::allocated_bytes(), manager.status()), held, "{skip}");
    }
    parked.resume().unwrap();
    assert_eq!(tensors.iter().map(bits).collect::<Vec<_>>(), expected);
}

#[test]
fn operators_of_other_threads_see_all_of_it_parked_or_none() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX, Lru);
    let (is_over, begun) = (AtomicBool::new(false), Barrier::new(3));
    let sums = thread::scope(|scope| {
        let works = || {
            let _entered = manager.enter().unwrap();
            let pair = [mibs(1), mibs(1)];
            let expected = sum(&pair[0]);
            let mut sums = 0;
            begun.wait();
            while !is_over.load(Ordering::Relaxed) {
                // A result may also be parked before it is read.
                let total = pair[0].f_dot(&pair[1]).and_then(|_| pair[0].f_sum(Kind::Double));
                match total.and_then(|total| total.f_double_value(&[])) {
                    Ok(total) => {
                        assert_eq!(total.to_bits(), expected);
                        sums += 1;
                    }
                    Err(error) => assert!(error.to_string().contains("parked"), "{error}"),
                }
                // The result of an operator is in use until the thread's next operator.
                let _next = pair[0].f_neg();
                thread::sleep(Duration::from_micros(200));
            }
            sums
        };
        let workers = [scope.spawn(works), scope.spawn(works)];
        begun.wait();
        let mut parks = 0;
        while parks < 20 {
            match manager.park() {
                Ok(parked) => {
                    parks += 1;
                    parked.resume().unwrap();
                }
                Err(error) => assert!(error.to_string().contains("in use"), "{error}"),
            }
            thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        workers.map(|worker| worker.join().unwrap())
    });
    assert!(sums.iter().sum::<i32>() > 0, "no sum between 20 parks");
}

/// Sets a flag when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A thread that reads a parked storage holds it still for the moment.
#[test]
fn what_another_thread_reads_is_resumed_evicted_and_fetched_all_the_same() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX, Lru);
    let tensor = mibs(4);
    let handle = manager.adopt(&tensor);
    let (read, ended) = (manager.adopt(&tensor), &AtomicBool::new(false));
    let is_parked = thread::scope(|scope| {
        scope.spawn(move || {
            let mut out = vec![0; 4 << 20];
            while !ended.load(Ordering::Relaxed) {
                read.read(&mut out).unwrap();
            }
        });
        // Ends the thread also if something fails.
        let _end = End(ended);
        (0..rounds(25, 100)).any(|_| {
            manager.park().unwrap().resume().unwrap();
            let is_parked = handle.residency() == Residency::Parked;
            let offloads = manager.report().offloads;
            handle.offload().unwrap();
            assert_eq!(manager.report().offloads, offloads + 1);
            manager.fetch_all().unwrap();
            is_parked
        })
    });
    // While it is read it counts as moving.
    assert_eq!((is_parked, handle.residency()), (false, Residency::Resident));
}

#[test]
fn the_budget_of_a_manager_that_is_gone_holds_nothing_back() {
    let _alone = alone();
    let (manager, entered) = entered(ground::allocated_bytes() + (8 << 20), Lru);
    let tensor = mibs(1);
    let (expected, parked) = (sum(&tensor), manager.park().unwrap());
    drop((entered, manager));
    let _other = mibs(16);
    parked.resume().unwrap();
    assert_eq!(sum(&tensor), expected);
}

#[test]
fn a_clean_copy_is_not_copied_again() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX, Lru);
    let tensor = mibs(1);
    let _used = sum(&tensor);
    manager.park().unwrap().resume().unwrap();
    let out = manager.report().bytes_out;
    let parked = manager.park().unwrap();
    assert!(manager.report().bytes_out - out < 1 << 10, "{}", manager.report());
    assert!(parked.bytes() >= 1 << 20);
    parked.resume().unwrap();
    assert_eq!(sum(&tensor), sum(&mibs(1)));
}

#[test]
fn a_pinned_storage_or_a_full_host_leaves_all_as_it_was() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX, Lru);
    let (first, second) = (mibs(1), mibs(2));
    let total = [sum(&first), sum(&second)];
    let named = manager.adopt(&second);
    let pin = named.pin().unwrap();
    let error = fails(&manager);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("in use or pinned") && text.contains("2097152 bytes"), "{text}");
    drop(pin);
    let manager = manager.host(5 << 19);
    let error = fails(&manager);
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("host out of memory"), "{error}");
    assert_eq!([sum(&first), sum(&second)], total);
    let manager = manager.host(4 << 20);
    manager.park().unwrap().resume().unwrap();
    assert_eq!([sum(&first), sum(&second)], total);
}

#[test]
fn a_storage_that_lacks_memory_stays_parked_and_is_resumed_later() {
    let _alone = alone();
    let before = ground::allocated_bytes();
    let (manager, _entered) = entered(before + (8 << 20), Lru);
    let tensors = [mibs(2), mibs(3)];
    let expected: Vec<_> = tensors.iter().map(bits).collect();
    let parked = manager.park().unwrap();
    manager.set_budget(ground::allocated_bytes() + (4 << 20)).unwrap();
    let held = ground::allocated_bytes();
    let unresumed = parked.resume().unwrap_err();
    let source = unresumed.source().unwrap().to_string();
    assert!(source.contains("cpu out of memory") && source.contains("budget"), "{source}");
    assert_eq!(ground::allocated_bytes(), held, "nothing came");
    let parked: Parked = unresumed.into_parked();
    let error = tensors[0].f_sum(Kind::Double).unwrap_err().to_string();
    assert!(error.contains("where it was parked: resume it first"), "{error}");
    manager.set_budget(held + (16 << 20)).unwrap();
    parked.resume().unwrap();
    assert_eq!(tensors.iter().map(bits).collect::<Vec<_>>(), expected);
}

#[test]
fn others_leave_for_what_is_resumed() {
    let _alone = alone();
    let (manager, _entered) = entered(ground::allocated_bytes() + (6 << 20), Lru);
    let tensor = mibs(4);
    let expected = bits(&tensor);
    let parked = manager.park().unwrap();
    let made_since = Tensor::full([4 * MIB], 7, ground::floats());
    let made = manager.adopt(&made_since);
    parked.resume().unwrap();
    assert_eq!(made.residency(), Residency::Offloaded);
    assert_eq!(bits(&tensor), expected);
    assert!(bits(&made_since).iter().all(|bits| *bits == 7_f32.to_bits()));
}

#[test]
fn a_parked_tensor_is_one_error_wherever_it_is_used() {
    let _alone = alone();
    let (manager, entered) = entered(u64::MAX, Lru);
    let tensor = mibs(1);
    let (named, evicted) = (manager.adopt(&tensor), mibs(1));
    let was_evicted = manager.adopt(&evicted);
    let _used = evicted.size();
    let _next = sum(&tensor);
    was_evicted.offload().unwrap();
    let parked = manager.park().unwrap();
    assert_eq!((named.residency(), was_evicted.residency()), (Residency::Parked, Residency::Parked));
    let mut bytes = vec![0; 4 << 18];
    named.read(&mut bytes).unwrap();
    assert_eq!(bytes[4..8], 1_f32.to_ne_bytes(), "it may be read where it is");
    for tensor in [&tensor, &evicted] {
        for error in [
            tensor.f_sum(Kind::Float).unwrap_err().to_string(),
            tensor.f_copy_data(&mut [0_f32], 1).unwrap_err().to_string(),
            manager.adopt(tensor).pin().unwrap_err().to_string(),
        ] {
            assert!(error.contains("parked") && error.contains("resume it first"), "{error}");
        }
    }
    drop(entered);
    let error = toma_torch::Error::from(tensor.f_sum(Kind::Float).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Offloaded);
    let error = error.to_string();
    assert!(error.contains(&format!("is evicted from {}: if it is parked", ground::name())), "{error}");
    parked.resume().unwrap();
    assert_eq!((named.residency(), was_evicted.residency()), (Residency::Resident, Residency::Offloaded));
    let error = evicted.f_sum(Kind::Float).unwrap_err().to_string();
    assert!(error.contains("enter its manager"), "{error}");
    let _entered = manager.enter().unwrap();
    assert_eq!(sum(&tensor), sum(&evicted));
}

#[test]
fn a_dropped_park_leaves_storages_evicted_and_ended_ones_freed() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX, Lru);
    let (tensor, other) = (mibs(1), mibs(2));
    let expected = sum(&tensor);
    let parked = manager.park().unwrap();
    drop(other);
    drop(parked);
    assert_eq!(manager.adopt(&tensor).residency(), Residency::Offloaded);
    assert_eq!(
        (manager.status().evicted, manager.status().evicted_bytes),
        (1, 1 << 20),
        "{}",
        manager.status()
    );
    assert_eq!(sum(&tensor), expected);
    let held = manager.status().host_bytes;
    let parked = manager.park().unwrap();
    drop(tensor);
    let numbers_may_be_used_again = mibs(1);
    parked.resume().unwrap();
    assert!(manager.status().host_bytes < held + (1 << 16));
    assert_eq!(sum(&numbers_may_be_used_again), expected);
}

#[test]
fn small_storages_stay_and_are_reported() {
    let _alone = alone();
    let manager = Manager::new(&cpu_device());
    let _entered = manager.enter().unwrap();
    let (small, large) = (Tensor::ones([1 << 10], ground::floats()), mibs(1));
    let _watched = manager.adopt(&small);
    let _used = sum(&large);
    let parked = manager.park().unwrap();
    assert_eq!((parked.stays().small, parked.stays().small_bytes), (1, 4 << 10));
    assert!(parked.stays().to_string().starts_with("1 small storages of 4.00K stay"), "{}", parked.stays());
    assert_eq!(sum(&small), 1024_f64.to_bits());
    parked.resume().unwrap();
    assert!(manager.adopt(&small).offload().is_err(), "operators would not look for it");
}

#[test]
fn a_device_is_parked_without_a_handle_where_there_is_a_manager() {
    let _alone = alone();
    let error = offload::park(&cpu_device()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("cpu has no manager: make one"), "{error}");
    let manager = manager(Lru);
    let _entered = manager.enter().unwrap();
    let tensor = mibs(1);
    let parked = offload::park(&cpu_device()).unwrap();
    assert_eq!((parked.bytes(), manager.adopt(&tensor).residency()), (1 << 20, Residency::Parked));
    parked.resume().unwrap();
    assert_eq!(manager.adopt(&tensor).residency(), Residency::Resident);
}

/// The manager that parked may be gone, and another manager has no record of it.
#[test]
fn a_storage_that_another_manager_has_fetched_meanwhile_is_neither_resumed_nor_lost() {
    let _alone = alone();
    for resumes in [true, false] {
        let weights = Tensor::full([1 << 14], 3, ground::floats());
        let (manager, entered) = entered(u64::MAX / 2, Lru);
        drop(manager.adopt(&weights));
        let parked = manager.park().unwrap();
        drop((entered, manager));
        let (_other, _entered) = self::entered(u64::MAX / 2, Lru);
        let expected = f64::from(3 << 14).to_bits();
        assert_eq!(sum(&weights), expected);
        if resumes {
            parked.resume().unwrap();
        } else {
            drop(parked);
        }
        assert_eq!(sum(&weights), expected);
        assert_eq!(sum(&(&weights * 2)), f64::from(6 << 14).to_bits());
    }
}

/// Another thread may be reading them when the storage is parked, fetched or evicted again.
#[test]
fn the_words_of_a_storage_are_written_once() {
    let _alone = alone();
    let manager = manager(Lru);
    let tensor = mibs(1);
    let handle = manager.adopt(&tensor);
    // Without the backtrace.
    let error = || tensor.f_sum(Kind::Float).unwrap_err().to_string().lines().next().map(str::to_owned);
    handle.offload().unwrap();
    let evicted = error();
    let parked = manager.park().unwrap();
    assert_eq!(error(), evicted);
    parked.resume().unwrap();
    handle.fetch().unwrap();
    handle.offload().unwrap();
    assert_eq!(error(), evicted);
}
