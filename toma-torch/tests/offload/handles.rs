//! Handles, pins, and evicted tensors.

#![expect(clippy::float_cmp, reason = "the same bits are meant")]

use crate::ground;
use tch::nn::{self, OptimizerConfig as _};
use tch::{Kind, Tensor};
use toma_torch::offload::{Eviction, Lru, Manager, Residency, Situation};
use toma_torch::{Error, ErrorKind};

use crate::kit::{alone, bits, cpu_device, entered, manager};

#[test]
fn a_tensor_leaves_with_its_views_and_is_back_for_an_operator_of_any_of_them() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let tensor = Tensor::arange(1000, ground::floats()).set_requires_grad(true);
    let view = tensor.detach().narrow(0, 10, 5);
    let handle = manager.adopt(&tensor);
    let before = ground::allocated_bytes();
    handle.offload().unwrap();
    assert_eq!((handle.residency(), ground::allocated_bytes()), (Residency::Offloaded, before - 4000));
    assert_eq!((manager.status().evicted, manager.status().evicted_bytes), (1, 4000));
    // Shapes, views and graphs need no memory.
    let narrower = handle.narrow(0, 0, 3);
    assert_eq!(handle.residency(), Residency::Offloaded);
    assert_eq!(view.sum(Kind::Float).double_value(&[]), 60.0);
    assert_eq!(handle.residency(), Residency::Resident);
    assert_eq!(bits(&narrower), bits(&Tensor::arange(3, ground::floats())));
    assert_eq!((handle.bytes(), handle.requires_grad()), (4000, true));
    assert!(format!("{handle}").contains("999"), "printed as the tensor is");
}

#[test]
fn uses_and_age_count_operators() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let [one, other] = [0, 1].map(|_| Tensor::ones([100], ground::floats()));
    let handle = manager.adopt(&one);
    let _squares = [one.square(), one.square(), other.square()];
    assert_eq!((handle.uses(), handle.age()), (2, 1));
}

#[test]
fn an_unwritten_storage_is_not_copied_out_twice() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let mut tensor = Tensor::ones([1000], ground::floats());
    let handle = manager.adopt(&tensor);
    let out = |times: u64| assert_eq!(manager.report().bytes_out, times * 4000);
    handle.offload().unwrap();
    out(1);
    let _sum = tensor.sum(Kind::Float);
    handle.offload().unwrap();
    out(1);
    let _same = tensor.g_add_scalar_(1.0);
    handle.offload().unwrap();
    out(2);
    // A pin counts as a write.
    drop(handle.pin().unwrap());
    handle.offload().unwrap();
    out(3);
    assert_eq!(tensor.double_value(&[7]), 2.0);
}

#[test]
fn the_last_handle_frees_evicted_bytes_on_any_thread() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    for is_back in [false, true] {
        let tensor = Tensor::ones([100_000], ground::floats());
        manager.adopt(&tensor).offload().unwrap();
        if is_back {
            manager.adopt(&tensor).fetch().unwrap();
        }
        assert!(manager.status().host_bytes >= 400_000);
        std::thread::spawn(move || drop(tensor)).join().unwrap();
        assert_eq!((manager.status().evicted, manager.status().host_bytes), (0, 0), "back: {is_back}");
    }
}

#[test]
fn outside_of_the_manager_access_is_an_error_that_names_the_tensor() {
    let _alone = alone();
    let manager = manager(Lru);
    let variables = tch::nn::VarStore::new(ground::device());
    let weight = variables.root().ones("weight", &[100]);
    let handles = manager.adopt_all(&variables);
    handles[0].offload().unwrap();
    let error = Error::from(weight.f_square().unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Offloaded, "{error}");
    assert!(
        error.to_string().contains(&format!("weight (400 bytes) is evicted from {}", ground::name())),
        "{error}"
    );
    assert!(weight.f_copy_data(&mut [0_f32; 100], 100).is_err());
    // Reads the bytes from the host, without a fetch.
    let mut bytes = [1; 400];
    handles[0].read(&mut bytes).unwrap();
    assert_eq!(bytes[..4], 1_f32.to_ne_bytes());
    assert!(handles[0].read(&mut [0; 3]).unwrap_err().to_string().contains("the memory has 400"));
    manager.fetch_all().unwrap();
    handles[0].read(&mut bytes).unwrap();
    assert_eq!(
        (weight.sum(Kind::Float).double_value(&[]), handles[0].residency()),
        (100.0, Residency::Resident)
    );
}

#[test]
fn pinned_and_kept_tensors_stay() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let [pinned, kept, other] = [0, 1, 2].map(|_| Tensor::ones([1000], ground::floats()));
    let pin = manager.adopt(&pinned).pin().unwrap();
    manager.keep(&[&kept]);
    for tensor in [&pinned, &kept] {
        let error = manager.adopt(tensor).offload().unwrap_err().to_string();
        assert!(error.contains("in use, pinned or kept"), "{error}");
    }
    manager.set_budget(ground::allocated_bytes() - 4000).unwrap();
    assert_eq!(manager.adopt(&other).residency(), Residency::Offloaded);
    let error = manager.set_budget(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    drop(pin);
    manager.adopt(&pinned).offload().unwrap();
    manager.adopt(&kept).forget();
    manager.adopt(&kept).offload().unwrap();
}

#[test]
fn foreign_memory_stays() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let file = std::env::temp_dir().join(format!("toma-offload-{}.bin", std::process::id()));
    std::fs::write(&file, 1_f32.to_ne_bytes().repeat(100)).unwrap();
    let foreign = Tensor::from_file(file.to_str().unwrap(), false, 100, ground::floats());
    let handle = manager.adopt(&foreign);
    assert_eq!((handle.residency(), handle.bytes()), (Residency::Foreign, 0));
    assert!(handle.offload().unwrap_err().to_string().contains("is not this manager's"));
    assert_eq!(foreign.sum(Kind::Float).double_value(&[]), 100.0);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn bad_input_is_one_clear_error_each() {
    let _alone = alone();
    let refused = |manager: &Manager| manager.enter().unwrap_err().to_string();
    assert_eq!(refused(&manager(Lru).budget(0)), "offload: budget 0 of cpu: must be at least 1 byte");
    let (_manager, _entered) = entered(u64::MAX / 2, Lru);
    let second = Manager::new(&cpu_device());
    assert_eq!(refused(&second), "offload: cpu has a manager already: drop that one first");
    let missing = Manager::new(&toma_torch::Device::new(tch::Device::Cuda(99)));
    assert_eq!(missing.enter().unwrap_err().kind(), ErrorKind::NoDevice);
    assert_eq!(missing.set_budget(1).unwrap_err().kind(), ErrorKind::NoDevice);
}

/// An eviction that gives bad advice.
#[derive(Clone, Copy)]
enum Poor {
    Nothing,
    Strangers,
    Panics,
}

impl Eviction for Poor {
    fn name(&self) -> &'static str {
        "poor"
    }

    fn evict(&mut self, _situation: &Situation<'_>) -> Vec<u64> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Strangers => vec![u64::MAX, 0, 7, 7],
            Self::Panics => panic!("a poor eviction"),
        }
    }
}

#[test]
fn a_poor_eviction_costs_no_result() {
    let _alone = alone();
    for poor in [Poor::Nothing, Poor::Strangers, Poor::Panics] {
        let (manager, _entered) = entered(ground::allocated_bytes() + 9000, poor);
        let tensors: Vec<_> = (0..5).map(|at| Tensor::full([1000], at, ground::floats())).collect();
        let sums = tensors.iter().map(|tensor| tensor.sum(Kind::Float).double_value(&[]));
        assert_eq!(sums.sum::<f64>(), 10_000.0);
        assert_eq!(manager.report().policy_panics > 0, matches!(poor, Poor::Panics));
    }
}

/// Writes are not observed while no thread has entered, so copies made before are not trusted.
#[test]
fn writes_outside_of_the_manager_are_fetched() {
    let _alone = alone();
    for is_parked in [false, true] {
        let manager = manager(Lru);
        let mut tensor = Tensor::ones([1000], ground::floats());
        let handle = manager.adopt(&tensor);
        {
            let _entered = manager.enter().unwrap();
            handle.offload().unwrap();
            handle.fetch().unwrap();
        }
        let _twos = tensor.fill_(2.0);
        handle.offload().unwrap();
        manager.fetch_all().unwrap();
        let _threes = tensor.fill_(3.0);
        if is_parked {
            manager.park().unwrap().resume().unwrap();
        } else {
            handle.offload().unwrap();
            manager.fetch_all().unwrap();
        }
        assert_eq!(tensor.double_value(&[999]), 3.0, "parked: {is_parked}");
    }
}

/// A variable is given other memory, as `half` and `set_data` do.
#[test]
fn handles_follow_their_tensor_to_other_memory() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let mut variables = tch::nn::VarStore::new(ground::device());
    let weight = variables.root().ones("weight", &[100]);
    let handle = manager.adopt_all(&variables).remove(0);
    variables.half();
    assert_eq!((weight.kind(), handle.bytes()), (Kind::Half, 200));
    handle.offload().unwrap();
    assert_eq!(manager.status().evicted_bytes, 200);
    assert_eq!(weight.to_kind(Kind::Float).sum(Kind::Float).double_value(&[]), 100.0);
}

/// A thread that has not entered cannot fetch, so no manager tracks the storages that only such threads use.
#[test]
fn storages_that_only_other_threads_use_stay() {
    let _alone = alone();
    let theirs = Tensor::ones([1000], ground::floats());
    let (manager, _entered) = entered(u64::MAX / 2, toma_torch::offload::Genoa);
    let theirs = std::thread::spawn(move || {
        let sums = (0..20).all(|_| theirs.sum(Kind::Float).double_value(&[]) == 1000.0);
        (theirs, sums)
    })
    .join()
    .unwrap();
    assert!(theirs.1);
    let own = Tensor::ones([10], ground::floats()).square();
    drop(own);
    // Genoa evicts everything else.
    assert_eq!((manager.status().resident, manager.adopt(&theirs.0).bytes()), (0, 4000));
    drop(theirs.0);
}

#[test]
fn evicted_gradients_are_dropped_on_the_host() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let variables = nn::VarStore::new(ground::device());
    let weight = variables.root().ones("weight", &[1000]);
    let mut optimizer = nn::sgd(0.0, 0.0, 0.0, false).build(&variables, 1e-2).unwrap();
    weight.square().sum(Kind::Float).backward();
    manager.adopt(&weight.grad()).offload().unwrap();
    let before = manager.report().fetches;
    optimizer.zero_grad();
    assert!(!weight.grad().defined());
    assert_eq!((manager.report().fetches, manager.status().evicted), (before, 0));
}

/// A copy is valid only while its manager observes writes.
#[test]
fn a_handle_of_a_manager_that_is_not_notified_of_writes_keeps_them() {
    let _alone = alone();
    for is_gone in [true, false] {
        let mut weights = Tensor::full([1 << 14], 3, ground::floats());
        let first = manager(Lru);
        let handle = first.adopt(&weights);
        let first = Some(first).filter(|_| !is_gone);
        handle.offload().unwrap();
        let (_other, _entered) = entered(u64::MAX / 2, Lru);
        handle.fetch().unwrap();
        let _ = weights.g_add_scalar_(1.0);
        handle.offload().unwrap();
        handle.fetch().unwrap();
        let sum = weights.sum(Kind::Double).double_value(&[]);
        assert_eq!(sum, f64::from(4 << 14), "is gone: {is_gone}");
        drop(first);
    }
}

/// Nothing enters, so no operator ever looks at the entries.
#[test]
#[cfg(target_os = "linux")]
fn handles_alone_leave_nothing_behind() {
    let _alone = alone();
    let manager = manager(Lru);
    let tries = |count: usize| {
        for _ in 0..count {
            let tensor = Tensor::ones([4], ground::floats());
            let handle = manager.adopt(&tensor);
            handle.offload().unwrap();
            handle.fetch().unwrap();
        }
        crate::resident::bytes("RssAnon")
    };
    let before = tries(2000);
    let after = tries(40_000);
    assert!(after < before + (4 << 20), "{before} bytes, then {after}");
}
