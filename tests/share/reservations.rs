//! Which bytes are granted, and which are not.

use std::error::Error;
use std::io;
use std::time::Duration;

use toma::device::{reserve, try_reserve};
use toma::memory::{MemorySource, Reading};
use toma::testing::FakeDevice;

use crate::AGES;

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
fn what_is_allocated_of_a_reservation_counts_once() {
    let device = FakeDevice::new(1000);
    let weights = try_reserve(&device, 600).unwrap();
    let buffer = device.alloc(600).unwrap();
    assert!(try_reserve(&device, 401).is_err());
    let rest = try_reserve(&device, 400).unwrap();

    // With the reservation gone, the bytes in use are not free all the same.
    drop((weights, rest));
    assert!(try_reserve(&device, 401).is_err());
    drop(buffer);
    assert!(try_reserve(&device, 401).is_ok());
}

#[test]
fn bytes_in_use_without_a_reservation_are_not_granted() {
    let device = FakeDevice::new(1000);
    let buffer = device.alloc(500).unwrap();
    let one = try_reserve(&device, 300).unwrap();
    drop(buffer);
    // Freed meanwhile, but the one may count on what was free when it was granted.
    let text = try_reserve(&device, 300).unwrap_err().to_string();
    let reason =
        "1000 of 1000 bytes are free, others have reserved 300 of the 500 bytes that were free before";
    assert!(text.ends_with(reason), "{text}");
    assert!(try_reserve(&device, 200).is_ok());
    drop(one);
    assert!(try_reserve(&device, 1000).is_ok());
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
fn devices_are_told_apart_by_their_names() {
    let [one, two] = [(); 2].map(|()| FakeDevice::new(1000));
    let _all = try_reserve(&one, 1000).unwrap();
    assert!(try_reserve(&one.clone(), 1).is_err());
    assert!(try_reserve(&two, 1000).is_ok());
}

#[test]
fn a_device_that_cannot_be_read_grants_nothing() {
    #[derive(Debug)]
    struct Broken;
    impl MemorySource for Broken {
        fn name(&self) -> &'static str {
            "broken:0"
        }
        fn read(&self) -> io::Result<Reading> {
            Err(io::Error::other("no driver"))
        }
    }

    let error = reserve(&Broken, 0, AGES).unwrap_err();
    assert_eq!(error.to_string(), "broken:0: cannot reserve 0 bytes: how many are free is unknown");
    assert_eq!(error.source().unwrap().to_string(), "no driver");
    assert_eq!(error.reading(), None);
    assert!(!error.is_too_large());
}
