//! The limit of the whole process, so each test is run in a process of its own.

#![cfg(target_os = "linux")]

#[path = "../../tests/common/child.rs"]
mod child;

use std::thread;

use rlimit::{INFINITY, Resource};
use toma_core::memory::{Host, MemorySource as _, set_cpu_memory_limit, used_bytes};

use crate::child::alone;

const MIB: u64 = 1 << 20;

fn soft() -> Option<u64> {
    Some(Resource::AS.get_soft().unwrap()).filter(|&bytes| bytes != INFINITY)
}

fn allocates(bytes: u64) -> bool {
    Vec::<u8>::new().try_reserve_exact(usize::try_from(bytes).unwrap()).is_ok()
}

#[test]
fn allocations_over_the_limit_fail_until_it_is_restored() {
    alone("allocations_over_the_limit_fail_until_it_is_restored", || {
        let limit = set_cpu_memory_limit(used_bytes().unwrap() + 64 * MIB).unwrap();
        assert!(allocates(32 * MIB));
        assert!(!allocates(128 * MIB));
        limit.restore().unwrap();
        assert!(allocates(128 * MIB));
    });
}

#[test]
fn dropping_restores_what_was_there_before() {
    alone("dropping_restores_what_was_there_before", || {
        let before = 1 << 40;
        Resource::AS.set(before, Resource::AS.get_hard().unwrap()).unwrap();
        drop(set_cpu_memory_limit(1 << 38).unwrap());
        assert_eq!(soft(), Some(before));
        let unwound = std::panic::catch_unwind(|| {
            let _limit = set_cpu_memory_limit(1 << 38).unwrap();
            panic!("on purpose");
        });
        assert!(unwound.is_err());
        assert_eq!(soft(), Some(before));
    });
}

#[test]
fn newest_living_limit_is_in_force() {
    alone("newest_living_limit_is_in_force", || {
        let before = soft();
        let [one, two, three, four] = [40, 41, 39, 42].map(|bits| set_cpu_memory_limit(1 << bits).unwrap());
        assert_eq!(soft(), Some(1 << 42));
        two.restore().unwrap();
        assert_eq!(soft(), Some(1 << 42));
        drop(four);
        assert_eq!(soft(), Some(1 << 39));
        drop(one);
        assert_eq!(soft(), Some(1 << 39));
        let five = set_cpu_memory_limit(1 << 43).unwrap();
        drop(three);
        assert_eq!(soft(), Some(1 << 43));
        five.restore().unwrap();
        assert_eq!(soft(), before);
    });
}

#[test]
fn limit_above_the_hard_limit_is_refused_with_both_values() {
    alone("limit_above_the_hard_limit_is_refused_with_both_values", || {
        let hard = 1 << 40;
        Resource::AS.set(hard - 1, hard).unwrap();
        let error = set_cpu_memory_limit(hard + 1).unwrap_err();
        let text = "cannot limit memory to 1099511627777 bytes: the hard limit is 1099511627776 bytes";
        assert_eq!((error.kind(), error.to_string().as_str()), (std::io::ErrorKind::InvalidInput, text));
        assert_eq!(soft(), Some(hard - 1));
        // A refused limit is not one of those living.
        let limit = set_cpu_memory_limit(hard).unwrap();
        assert_eq!(Resource::AS.get().unwrap(), (hard, hard));
        drop(limit);
        assert_eq!(soft(), Some(hard - 1));
    });
}

#[test]
fn limit_below_what_is_in_use_is_refused_with_both_values() {
    alone("limit_below_what_is_in_use_is_refused_with_both_values", || {
        let before = soft();
        let error = set_cpu_memory_limit(4096).unwrap_err().to_string();
        let start = "cannot limit memory to 4096 bytes: ";
        assert!(error.starts_with(start) && error.ends_with(" bytes are in use already"), "{error}");
        assert_eq!(soft(), before);
    });
}

#[test]
fn restore_reports_a_hard_limit_that_was_lowered_meanwhile() {
    alone("restore_reports_a_hard_limit_that_was_lowered_meanwhile", || {
        Resource::AS.set(INFINITY, INFINITY).unwrap();
        let limit = set_cpu_memory_limit(1 << 39).unwrap();
        Resource::AS.set(1 << 39, 1 << 40).unwrap();
        let error = limit.restore().unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot limit memory to any number of bytes: the hard limit is 1099511627776 bytes"
        );
        drop(set_cpu_memory_limit(1 << 38).unwrap());
        assert_eq!(soft(), Some(1 << 39));
    });
}

#[test]
fn threads_that_set_and_end_limits_leave_none() {
    alone("threads_that_set_and_end_limits_leave_none", || {
        let before = soft();
        thread::scope(|scope| {
            for bits in 38..46 {
                scope.spawn(move || {
                    for _ in 0..200 {
                        let limit = set_cpu_memory_limit(1 << bits).unwrap();
                        assert!(soft().is_some_and(|bytes| bytes.is_power_of_two() && bytes >= 1 << 38));
                        drop(limit);
                    }
                });
            }
        });
        assert_eq!(soft(), before);
    });
}

#[test]
fn host_memory_is_what_the_limit_leaves() {
    alone("host_memory_is_what_the_limit_leaves", || {
        let bytes = used_bytes().unwrap() + 64 * MIB;
        let limit = set_cpu_memory_limit(bytes).unwrap();
        let reading = Host::shared().read().unwrap();
        assert_eq!(reading.total_bytes, bytes);
        assert!(reading.free_bytes <= 64 * MIB && reading.free_bytes > 56 * MIB, "{reading:?}");
        let mut held = Vec::<u8>::new();
        held.try_reserve_exact(32 << 20).unwrap();
        let with_less = Host::shared().read().unwrap();
        assert!(reading.free_bytes - with_less.free_bytes >= 32 * MIB, "{with_less:?}");
        limit.restore().unwrap();
        assert!(Host::shared().read().unwrap().total_bytes > bytes);
        drop(held);
    });
}

#[test]
fn used_bytes_count_what_is_reserved_untouched() {
    alone("used_bytes_count_what_is_reserved_untouched", || {
        let before = used_bytes().unwrap();
        let mut held = Vec::<u8>::new();
        held.try_reserve_exact(256 << 20).unwrap();
        let after = used_bytes().unwrap();
        assert!(after - before >= 256 * MIB, "{before} {after}");
        drop(held);
    });
}
