//! Inventory rows of evicted storages.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ground;
use tch::nn::{self, Module as _, VarStore};
use tch::{Kind, Tensor};
use toma_torch::offload::{Flow, Lru, Residency};
use toma_torch::profile::{Inventory, inventory};

use crate::kit::{alone, entered};

/// Bytes of a row on the device, and evicted.
fn row(inventory: &Inventory, name: &str) -> [u64; 2] {
    let item = inventory.items().iter().find(|item| item.name == name);
    let item = item.unwrap_or_else(|| panic!("no {name} in\n{inventory:#}"));
    [item.bytes, item.outside_bytes]
}

#[test]
fn evicted_tensors_are_on_the_host_and_in_no_sum() {
    let _alone = alone();
    let (manager, entered) = entered(u64::MAX / 2, Lru);
    let weight = Tensor::ones([512, 1024], ground::floats());
    let view = weight.narrow(0, 256, 256);
    let here = Tensor::ones([256, 1024], ground::floats());
    let handle = manager.adopt(&weight);
    handle.offload().unwrap();
    let take = || inventory().tensor("weight", &weight).tensor("view", &view).tensor("here", &here).take();
    let taken = take().unwrap();
    assert_eq!(row(&taken, "weight"), [0, 2 << 20]);
    assert_eq!(row(&taken, "here"), [1 << 20, 0]);
    assert_eq!(taken.items()[0].aliases[0].name, "view");
    assert_eq!(taken.used_bytes(&ground::place()), ground::allocated_bytes(), "{taken:#}");
    assert_eq!(taken.outside_bytes(&ground::place()), manager.status().evicted_bytes);
    assert_eq!((handle.residency(), manager.report().fetches), (Residency::Offloaded, 0), "it was looked at");
    let text = taken.to_string();
    let header = "Element type                                            Size  Used MEM   Outside\n";
    assert!(text.starts_with(header), "{text}");
    assert!(text.contains("(512, 1024)     0.00B     2.00M\n"), "{text}");
    assert!(text.contains("\nOutside of host: 2.00M\n"), "{text}");
    // The row remains after the last guard and without its manager.
    drop((entered, handle, manager));
    assert_eq!(row(&take().unwrap(), "weight"), [0, 2 << 20]);
    let (manager, _entered) = self::entered(u64::MAX / 2, Lru);
    manager.adopt(&weight).fetch().unwrap();
    let taken = take().unwrap();
    assert_eq!(row(&taken, "weight"), [2 << 20, 0]);
    assert!(!taken.to_string().contains("Outside"), "{taken}");
}

#[test]
fn parts_of_a_sparse_tensor_are_outside() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let indices = Tensor::arange(1000, (Kind::Int64, ground::device())).reshape([1, 1000]);
    let sparse = Tensor::sparse_coo_tensor_indices_size(
        &indices,
        &Tensor::ones([1000], ground::floats()),
        [1000],
        ground::floats(),
        true,
    );
    manager.adopt(&sparse).offload().unwrap();
    let taken = inventory().tensor("sparse", &sparse).take().unwrap();
    assert_eq!(row(&taken, "sparse.values"), [0, 4000]);
    assert_eq!(row(&taken, "sparse.indices"), [0, 8000]);
    assert_eq!(manager.report().fetches, 0);
    assert_eq!(taken.used_bytes(&ground::place()), ground::allocated_bytes(), "{taken:#}");
}

/// All rows are of one moment, whatever another thread moves meanwhile.
#[test]
fn beside_a_thread_that_trains_in_less_memory_every_storage_is_in_one_place() {
    let _alone = alone();
    let variables = VarStore::new(ground::device());
    let layers: Vec<_> =
        (0..4).map(|at| nn::linear(variables.root() / at, 256, 256, nn::LinearConfig::default())).collect();
    let (manager, _entered) = entered(u64::MAX / 2, Flow::default());
    drop(manager.adopt_all(&variables));
    manager.set_budget(ground::allocated_bytes() - (1 << 19)).unwrap();
    let ends = AtomicBool::new(false);
    let taken: Vec<_> = std::thread::scope(|scope| {
        let (inside, ends) = (manager.clone(), &ends);
        scope.spawn(move || {
            let _entered = inside.enter().unwrap();
            let x = Tensor::ones([8, 256], ground::floats());
            while !ends.load(Ordering::Relaxed) {
                drop(layers.iter().fold(x.shallow_clone(), |x, layer| layer.forward(&x)));
            }
        });
        while manager.report().fetches == 0 {
            std::thread::yield_now();
        }
        let taken = (0..300).map(|_| inventory().variables(&variables).take()).collect();
        ends.store(true, Ordering::Relaxed);
        taken
    });
    let mut has_been_outside = false;
    for taken in taken {
        let taken = taken.unwrap();
        for at in 0..4 {
            let [here, outside] = row(&taken, &format!("{at}.weight"));
            assert_eq!(here + outside, 1 << 18, "{at}: {taken}");
            has_been_outside |= outside > 0;
        }
        assert!(taken.items().iter().all(|item| item.is_counted), "{taken:#}");
    }
    assert!(has_been_outside, "{}", manager.report());
}
