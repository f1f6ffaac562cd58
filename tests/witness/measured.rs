//! Measurements of attempts are the same with a witness that allocates on their device.

use toma::Adaptive;
use toma::testing::FakeDevice;
use toma::{GlobalCache, execute, report};

use crate::scripted::{Session, set_meanwhile};

/// Returns the sizes that a range tries on the device, and the peak of the fullest attempt.
fn run(device: &FakeDevice) -> (Vec<usize>, Option<u64>) {
    let (cache, mut sizes) = (GlobalCache::new(), Vec::new());
    let with = execute::with::<GlobalCache>().cache(&cache).policy(Adaptive::default()).device(device);
    with.range(0..200, 64, |start, end| {
        sizes.push(end - start);
        device.alloc(100 + 10 * (end - start) as u64).map(drop)
    })
    .unwrap();
    (sizes, report::last().unwrap().fullest.map(|full| full.peak_bytes))
}

#[test]
fn peaks_and_sizes_are_those_without_a_witness() {
    let session = Session::silent();
    let device = FakeDevice::new(500);
    let expected = run(&device);
    assert_eq!(expected.1, Some(490), "{expected:?}");
    toma::observe::witness::listen(true);
    let memory = FakeDevice::new(500);
    let used = memory.clone();
    // Allocates all free bytes for a moment: before the attempt is measured, and after it.
    set_meanwhile(move |_| drop(used.alloc(500).unwrap()));
    assert_eq!(run(&memory), expected);
    let received = session.take();
    assert!(received.contains("asked") && received.contains("Succeeded"), "{received}");
}
