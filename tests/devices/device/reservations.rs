//! Tests which bytes are granted and which calls wait for them. The ends of waits are tested in the unit tests of
//! `device`.

use std::error::Error;
use std::thread;
use std::time::Duration;

use toma::device::{reserve, try_reserve};
use toma::memory::{MemorySource, Reading};
use toma::testing::FakeDevice;
use toma::{NoCache, execute};

use crate::kit::Memory;

/// A wait bound that no test reaches.
const AGES: Duration = Duration::from_secs(60);

#[test]
fn reservations_stay_within_what_was_free() {
    let device = FakeDevice::new(1000);
    let weights = try_reserve(&device, 600).unwrap();
    assert_eq!((weights.device(), weights.bytes()), (device.name(), 600));
    let rest = try_reserve(&device, 400).unwrap();
    let error = try_reserve(&device, 1).unwrap_err();
    assert_eq!((error.device(), error.asked_bytes(), error.reserved_bytes()), (device.name(), 1, 1000));
    assert_eq!(error.reading(), Some(Reading::new(1000, 1000)));
    assert!(!error.is_too_large());
    let free = "1000 of 1000 bytes are free";
    let reserved = "others have reserved 1000 of the 1000 bytes that were free before";
    let text = format!("{}: cannot reserve 1 bytes: {free}, {reserved}", device.name());
    assert_eq!(error.to_string(), text);

    drop(weights);
    assert!(try_reserve(&device, 601).is_err());
    drop(rest);
    assert!(try_reserve(&device, 1000).is_ok());
}

#[test]
fn bytes_allocated_of_a_reservation_count_once() {
    let device = FakeDevice::new(1000);
    let weights = try_reserve(&device, 600).unwrap();
    let buffer = device.alloc(600).unwrap();
    assert!(try_reserve(&device, 401).is_err());
    let rest = try_reserve(&device, 400).unwrap();

    // Although the reservation is gone, the bytes in use are not free.
    drop((weights, rest));
    assert!(try_reserve(&device, 401).is_err());
    drop(buffer);
    assert!(try_reserve(&device, 401).is_ok());
}

#[test]
fn more_than_there_is_fails_at_once() {
    let device = FakeDevice::new(1000);
    let error = reserve(&device, 1001, Duration::MAX).unwrap_err();
    assert!(error.is_too_large());
    assert!(error.source().is_none());
    assert!(error.to_string().ends_with("cannot reserve 1001 bytes: 1000 of 1000 bytes are free"), "{error}");
    assert!(try_reserve(&device, u64::MAX).is_err());
    assert!(try_reserve(&device, 1000).is_ok(), "the one that failed left something behind");
}

#[test]
fn sums_do_not_overflow() {
    let device = FakeDevice::new(u64::MAX);
    let _most = try_reserve(&device, u64::MAX).unwrap();
    assert!(try_reserve(&device, u64::MAX).is_err());
}

#[test]
fn no_bytes_are_always_there() {
    let device = FakeDevice::new(10);
    let _all = try_reserve(&device, 10).unwrap();
    assert!(try_reserve(&device, 0).is_ok());
}

#[test]
fn a_device_without_a_name_is_shown_as_one() {
    let error = try_reserve(&Memory::named("", 7, 7), 8).unwrap_err();
    assert_eq!(error.to_string(), "device \"\": cannot reserve 8 bytes: 7 of 7 bytes are free");
    assert_eq!(format!("{error:?}"), error.to_string(), "what `unwrap` prints is for people, too");
}

#[test]
fn bytes_that_are_not_reserved_are_no_reason_to_try_again() {
    let device = FakeDevice::new(10);
    let mut attempts = 0;
    let ended = execute::with::<NoCache>().range(0..8, 8, |_, _| {
        attempts += 1;
        try_reserve(&device, 11).map(drop)
    });
    assert!(ended.unwrap_err().is_too_large());
    assert_eq!(attempts, 1);
}

#[test]
fn a_device_that_cannot_be_read_grants_nothing() {
    let broken = Memory::named("broken:0", 0, 0);
    broken.cannot_be_read();
    let error = reserve(&broken, 0, AGES).unwrap_err();
    assert_eq!(error.to_string(), "broken:0: cannot reserve 0 bytes: how many are free is unknown");
    assert_eq!(error.source().unwrap().to_string(), "this memory cannot be read");
    assert_eq!(error.reading(), None);
    assert!(!error.is_too_large());
}

#[test]
fn reserved_bytes_can_be_allocated_whatever_others_do() {
    let device = FakeDevice::new(1000);
    thread::scope(|scope| {
        for seed in 1..=8_u64 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..50 {
                    let bytes = (seed * 7919 + round * 104_729) % 1000;
                    let _reserved = reserve(device, bytes, AGES).unwrap();
                    let buffer = device.alloc(bytes).expect("it was reserved");
                    thread::yield_now();
                    drop(buffer);
                }
            });
        }
    });
    assert_eq!(device.failures(), 0);
    assert!(try_reserve(&device, 1000).is_ok());
}
