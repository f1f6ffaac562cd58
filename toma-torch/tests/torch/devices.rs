//! Devices as memory sources, present or absent.

use toma_core::GlobalCache;
use toma_core::execute;
use toma_core::memory::{Host, MemorySource, Usage, set_cpu_memory_limit, used_bytes};
use toma_torch::Device;
use toma_torch::cpu::{self, Budget};

use crate::stage::{ROW, alone, in_child, rows};

#[test]
fn the_free_memory_of_the_cpu_is_the_hosts_or_what_the_budget_leaves() {
    let _alone = alone();
    let device = Device::new(tch::Device::Cpu);
    assert_eq!(device.name(), "cpu");
    assert_eq!(device.read().unwrap().total_bytes, Host::shared().read().unwrap().total_bytes);
    let budget = Budget::beyond_allocated(10 * ROW);
    let held = rows(4);
    assert_eq!(Device::of(&held), device);
    assert_eq!(device.read().unwrap().free_bytes, 6 * ROW);
    let stats = device.stats().unwrap();
    assert_eq!(stats.allocated_bytes, cpu::allocated_bytes());
    let below = Budget::new(0);
    assert_eq!(device.read().unwrap().free_bytes, 0);
    drop((below, budget));
    device.reset_peaks().unwrap();
    assert_eq!(device.stats().unwrap().peak_allocated_bytes, cpu::allocated_bytes());
}

/// Reading allocated bytes must not change the allocator.
#[test]
fn of_the_cpu_nothing_is_counted_before_that_is_asked_for() {
    if !in_child("devices::of_the_cpu_nothing_is_counted_before_that_is_asked_for") {
        return;
    }
    let device = Device::new(tch::Device::Cpu);
    device.reset_peak();
    assert_eq!(device.usage(), None);
    let uncounted = rows(1);
    cpu::count();
    assert_eq!(device.usage(), Some(Usage::new(0, 0)));
    drop(uncounted);
    let _counted = rows(1);
    assert_eq!(device.usage(), Some(Usage::new(ROW, ROW)));
    drop(rows(3));
    assert_eq!(device.usage(), Some(Usage::new(ROW, 4 * ROW)), "what tensors hold, and held at most");
    device.reset_peak();
    assert_eq!(device.usage(), Some(Usage::new(ROW, ROW)));
}

#[test]
fn bytes_of_tensors_are_exact_though_the_host_is_not_read_again() {
    let _alone = alone();
    let device = Device::new(tch::Device::Cpu);
    // Between two readings the free bytes of the host may be read again and differ, but not every time.
    let is_exact = |_| {
        let before = device.read().unwrap().free_bytes;
        let held = rows(1000);
        let after = device.read().unwrap().free_bytes;
        drop(held);
        before.checked_sub(after) == Some(1000 * ROW) && device.read().unwrap().free_bytes == before
    };
    assert!((0..50).any(is_exact));
}

#[test]
fn after_a_release_the_host_is_asked_again() {
    let _alone = alone();
    let device = Device::new(tch::Device::Cpu);
    let free = || device.read().unwrap().free_bytes;
    let before = free();
    // The kernel's free bytes may lag; a limit holds at once.
    let limit = set_cpu_memory_limit(used_bytes().unwrap() + (1 << 30)).unwrap();
    device.release_cached_memory();
    let under_limit = free();
    drop(limit);
    device.release_cached_memory();
    // Threads of other tests that end meanwhile give a little back.
    assert!(under_limit < 2 << 30 && under_limit < before, "{before} {under_limit}");
    assert!(free() > under_limit);
}

/// A program needs no code for this, with CUDA or without.
#[cfg(target_os = "linux")]
#[test]
fn the_cuda_part_of_libtorch_is_loaded_where_there_is_one() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert_eq!(maps.contains("/libtorch_cuda.so"), cfg!(libtorch_has_cuda));
}

#[test]
fn a_device_that_cannot_be_read_does_not_stop_a_loop() {
    let _alone = alone();
    let none = Device::new(tch::Device::Cuda(9999));
    let _budget = Budget::beyond_allocated(4 * ROW);
    let size = execute::with::<GlobalCache>().device(&none).batch(8, |batch_size| {
        drop(rows(batch_size));
        batch_size
    });
    assert_eq!(size, 4);
}
