//! What people see of the ladder.

use toma::classify::OutOfMemory;
use toma::device::{Ladder, Rung, falls_back};
use toma::observe::Reason;
use toma::testing::FakeDevice;
use toma::{NoCache, execute, report};

use crate::kit::{Other, Watching, must_end, patient};

#[test]
fn the_report_says_that_the_call_has_waited() {
    must_end(|| {
        let device = FakeDevice::new(100);
        let seen = Watching::for_other(Other::on(&device, 60));
        let with = execute::with::<NoCache>().device(&device).observer(&seen).ladder(patient()).name("step");
        with.batch(8, |size| device.alloc(10 * size as u64).map(drop)).unwrap();
        let report = report::last().unwrap();
        assert!(!report.waited.is_zero() && !report.fell_back);
        let line = report.to_string().lines().find(|line| line.starts_with("  waited ")).unwrap().to_owned();
        assert!(line.ends_with(" for others on the device"), "{report}");
    });
}

#[test]
fn the_report_says_that_the_call_fell_back() {
    let with = execute::with::<NoCache>().ladder(Ladder::default().fallback(true)).name("step");
    let body = |_| if falls_back() { Ok(()) } else { Err(OutOfMemory::new(None)) };
    with.batch(2, body).unwrap();
    let report = report::last().unwrap();
    let line = "\n  went on  in another memory, when nothing smaller was left\n";
    assert!(report.to_string().contains(line), "{report}");
    execute::with::<NoCache>().batch(2, |_| ());
    let report = report::last().unwrap();
    assert!(report.waited.is_zero() && !report.fell_back && !report.to_string().contains("went on"));
}

#[test]
fn rungs_and_reasons_have_names() {
    let rungs = [Rung::Transient, Rung::Release, Rung::Exclusive, Rung::Hooks];
    assert_eq!(rungs.map(|rung| rung.to_string()), ["transient", "release", "alone", "hooks"]);
    assert_eq!(Reason::Cancelled.to_string(), "the call is cancelled");
}

/// The rung is for memory sources whose allocator does not do it before it fails.
#[test]
fn the_same_size_is_tried_again_once_cached_memory_is_released() {
    let device = FakeDevice::new(100);
    let cases = [(false, true, vec![4, 2]), (true, true, vec![4, 4, 2]), (true, false, vec![4, 2])];
    for (on, has_device, sizes) in cases {
        let (ladder, mut tried) = (Ladder::default().release_and_retry(on), Vec::new());
        let with = execute::with::<NoCache>().ladder(ladder);
        let with = if has_device { with.device(&device) } else { with };
        with.batch(4, |size| {
            tried.push(size);
            if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        })
        .unwrap();
        assert_eq!(tried, sizes);
    }
}
