//! Results of a call that a prediction learns from.

use std::sync::Mutex;
use std::time::Duration;

use super::{Piece, Predict, PredictedSize, Shown};
use crate::NoCache;
use crate::execute;
use crate::policy::Policy;
use crate::report::{self, Report};
use crate::testing::{FakeDevice, FakeOutOfMemory, StoppedClock, inject};
use crate::{Adaptive, Bisect, Halve};

/// Predicts that a piece takes so many bytes for each item, and keeps the results that it learns from.
#[derive(Debug, Default)]
struct PerItem {
    bytes: u64,
    /// Bytes per item that it predicts with once a size has failed.
    bytes_by_now: Option<u64>,
    is_unproven: bool,
    shown: Mutex<Vec<Shown>>,
    elapsed: Mutex<Duration>,
}

impl PerItem {
    fn of(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    fn shown(&self) -> Vec<Shown> {
        self.shown.lock().unwrap().clone()
    }

    /// Most bytes that a piece has taken beyond the predicted ones.
    fn difference(&self) -> u64 {
        let beyond = self.shown().into_iter().filter_map(|shown| match shown {
            Shown::Took { size, peak_bytes, .. } => {
                Some(peak_bytes?.saturating_sub(self.bytes * size as u64))
            }
            Shown::RanOut | Shown::Failed { .. } | Shown::Ended { .. } => None,
        });
        beyond.max().unwrap_or(0)
    }
}

impl Predict for PerItem {
    fn predict(&self, items: Option<usize>, free_bytes: u64) -> Option<PredictedSize> {
        let size = usize::try_from(free_bytes.saturating_sub(self.difference()) / self.bytes).unwrap();
        let size = size.min(items.unwrap_or(usize::MAX));
        (size > 0).then_some(PredictedSize { size, needs_bytes: self.bytes * size as u64 })
    }

    fn piece(&self, size: usize) -> Option<Piece> {
        Some(Piece { needs_bytes: 200 + self.bytes * size as u64, per_item_bytes: self.bytes })
    }

    fn is_unproven(&self) -> bool {
        self.is_unproven
    }

    fn predict_smaller(&self, left: usize, free_bytes: u64) -> Option<PredictedSize> {
        let bytes = self.bytes_by_now?;
        assert!(self.shown().contains(&Shown::RanOut));
        let size = usize::try_from(free_bytes / bytes).unwrap().min(left);
        Some(PredictedSize { size, needs_bytes: bytes * size as u64 })
    }

    fn why_not(&self) -> Option<String> {
        Some(format!("an item takes {}", self.bytes))
    }

    fn learn(&self, shown: Shown) {
        if let Shown::Ended { elapsed } = shown {
            *self.elapsed.lock().unwrap() += elapsed;
        } else {
            self.shown.lock().unwrap().push(shown);
        }
    }
}

/// Runs a body that takes `bytes(size)`.
fn run<P: Policy>(
    predict: &PerItem,
    policy: P,
    device: &FakeDevice,
    bytes: impl Fn(u64) -> u64,
) -> (Vec<usize>, Report) {
    let mut sizes = Vec::new();
    let form = execute::with::<NoCache>().device(device).predict(predict).policy(policy);
    let result = form.range(0..100, 100, |start, end| {
        sizes.push(end - start);
        device.alloc(bytes((end - start) as u64)).map(drop)
    });
    let _: Result<(), FakeOutOfMemory> = result;
    (sizes, report::last().unwrap())
}

#[test]
fn the_smallest_size_that_failed_is_reported_once() {
    let (predict, device) = (PerItem::of(10), FakeDevice::new(640));
    let (sizes, _) = run(&predict, Halve, &device, |items| 35 * items);
    assert_eq!(sizes[..3], [64, 32, 16]);
    let failed = Shown::Failed { size: 32, works: Some(16), items: Some(100), free_bytes: 640 };
    assert_eq!(predict.shown(), [Shown::RanOut, failed]);
}

#[test]
fn a_prediction_that_knows_better_after_a_failure_chooses_the_next_size() {
    let device = FakeDevice::new(640);
    for (bytes, expected) in [(160, vec![64, 4, 4]), (16, vec![64, 40, 40]), (10, vec![64, 32, 32])] {
        let predict = PerItem { bytes_by_now: Some(bytes), ..PerItem::of(10) };
        let (sizes, report) = run(&predict, Halve, &device, |items| bytes.max(11) * items);
        assert_eq!((&sizes[..3], report.out_of_memory), (&expected[..], 1), "{report}");
    }
    // After the first piece the prediction is for the rest.
    let predict = PerItem { bytes_by_now: Some(10), ..PerItem::of(10) };
    let form = execute::with::<NoCache>().device(&device).predict(&predict);
    let mut sizes = Vec::new();
    let result = form.range(0..100, 100, |start, end| {
        sizes.push(end - start);
        device.alloc(if start == 64 { 18 } else { 10 } * (end - start) as u64).map(drop)
    });
    result.unwrap();
    assert_eq!(sizes, [64, 36, 18, 18]);
}

#[test]
fn bytes_that_pieces_left_behind_were_free_and_bytes_that_others_took_were_not_promised() {
    let (predict, device) = (PerItem::of(10), FakeDevice::new(640));
    let mut held = Vec::new();
    let form = execute::with::<NoCache>().device(&device).predict(&predict);
    let result = form.range(0..100, 100, |start, end| {
        if start == 0 {
            held.push(device.alloc(600)?);
        } else {
            device.set_budget(620);
        }
        device.alloc(((end - start) as u64).min(30)).map(drop)
    });
    result.unwrap();
    let failed = Shown::Failed { size: 36, works: Some(18), items: Some(100), free_bytes: 620 };
    assert_eq!(predict.shown(), [Shown::RanOut, failed]);
}

#[test]
fn an_injected_failure_is_not_reported() {
    let (predict, device) = (PerItem::of(10), FakeDevice::new(640));
    let injected = inject::above(20);
    let (sizes, report) = run(&predict, Halve, &device, |items| items);
    drop(injected);
    assert_eq!(sizes[0], 16);
    assert!(report.injected && report.predicted.is_some());
    assert_eq!(predict.shown(), []);
}

#[test]
fn a_failure_above_the_predicted_size_is_not_reported() {
    let (predict, device) = (PerItem::of(10), FakeDevice::new(320));
    let form = execute::with::<NoCache>().device(&device).predict(&predict).min(64);
    let result = form.range(0..100, 100, |start, end| device.alloc(10 * (end - start) as u64).map(drop));
    assert!(result.is_err());
    assert_eq!((predict.shown(), report::last().unwrap().start), (vec![], 64));
}

#[test]
fn a_first_piece_is_a_quarter_where_attempts_take_what_is_not_seen() {
    let device = FakeDevice::new(640);
    // The first attempt makes a workspace that stays.
    let workspace = Mutex::new(None);
    let predict = PerItem { is_unproven: true, ..PerItem::of(10) };
    let form = || execute::with::<NoCache>().device(&device).predict(&predict).policy(Bisect::default());
    let mut sizes = Vec::new();
    let mut body = |start: usize, end: usize| {
        sizes.push(end - start);
        workspace.lock().unwrap().get_or_insert_with(|| device.alloc(100).unwrap());
        device.alloc(10 * (end - start) as u64).map(drop)
    };
    form().range(0..100, 100, &mut body).unwrap();
    // 540 bytes are left, from which the measured difference is subtracted again.
    assert_eq!(sizes, [16, 44, 40]);
    let took = |size, is_first, peak| Shown::Took { size, is_first, peak_bytes: Some(peak) };
    assert_eq!(predict.shown(), [took(16, true, 260)], "no piece after it is measured");
    let report = report::last().unwrap();
    assert_eq!((report.start, report.out_of_memory), (16, 0));
}

/// Sizes that ran, as a report gives them: even pieces and costs need not fill a step.
#[test]
fn a_first_piece_that_explores_is_reported_with_its_own_size() {
    let device = FakeDevice::new(640);
    let predict = || PerItem { is_unproven: true, ..PerItem::of(10) };
    let body = |start: usize, end: usize| device.alloc(10 * (end - start) as u64).map(drop);
    let tried_sizes = || {
        let tried = report::last().unwrap().tried;
        tried.iter().map(|tried| (tried.size, tried.succeeded)).collect::<Vec<_>>()
    };
    let first = predict();
    let form = execute::with::<NoCache>().device(&device).predict(&first);
    form.policy(Bisect::default()).evenly().range(0..76, 76, body).unwrap();
    assert_eq!(tried_sizes(), [(16, 1), (60, 1)]);
    let second = predict();
    let form = execute::with::<NoCache>().device(&device).predict(&second);
    form.evenly().range(0..81, 81, body).unwrap();
    assert_eq!(tried_sizes(), [(14, 1), (34, 2)]);
    let third = predict();
    let form = execute::with::<NoCache>().device(&device).predict(&third);
    form.by_cost(|_| 3).range(0..40, 120, |start, end| body(3 * start, 3 * end)).unwrap();
    assert_eq!(tried_sizes(), [(15, 1), (63, 2)]);
}

#[test]
fn a_whole_size_begins_where_nothing_is_hidden_or_half_is_enough_or_the_size_is_a_batch() {
    let device = FakeDevice::new(2100);
    let first = |predict: &PerItem| run(predict, Halve, &device, |items| items).0[0];
    assert_eq!(first(&PerItem::of(21)), 100, "all is seen");
    assert_eq!(first(&PerItem { is_unproven: true, ..PerItem::of(10) }), 100, "less than half");
    assert_eq!(first(&PerItem { is_unproven: true, ..PerItem::of(21) }), 25);
    let predict = PerItem { is_unproven: true, ..PerItem::of(21) };
    let form = execute::with::<NoCache>().device(&device).predict(&predict);
    assert_eq!(form.batch(90, |size| size), 90);
    assert_eq!(predict.shown(), []);
}

/// The difference of measured and predicted bytes corrects the size, without small attempts.
#[test]
fn adaptive_follows_a_prediction_and_what_it_missed() {
    let predict = PerItem { is_unproven: true, ..PerItem::of(10) };
    let device = FakeDevice::new(400);
    let (sizes, report) = run(&predict, Adaptive::default(), &device, |items| 150 + 10 * items);
    assert_eq!(report.out_of_memory, 0, "{report}");
    assert_eq!(sizes, [10, 25, 25, 25, 15]);
    let predict = PerItem::of(10);
    let (sizes, report) = run(&predict, Adaptive::default(), &device, |items| 10 * items);
    assert_eq!((sizes, report.out_of_memory), (vec![40, 40, 20], 0), "nothing smaller is measured");
    // Once a predicted size has failed, measurements count.
    let predict = PerItem::of(10);
    let (sizes, report) = run(&predict, Adaptive::default(), &device, |items| 150 + 10 * items);
    assert_eq!((sizes[0], report.out_of_memory), (40, 1), "{report}");
}

#[test]
fn a_budget_below_one_item_is_reported_with_bytes_per_item() {
    let (predict, device) = (PerItem::of(1000), FakeDevice::new(640));
    let attempts = |bytes: u64| run(&predict, Halve, &device, |items| bytes * items);
    let (sizes, report) = attempts(1000);
    assert_eq!((sizes.last(), report.predicted), (Some(&1), None), "it is tried all the same");
    let shown = report.to_string();
    let why = "it does not fit at size 1: needs 1.2 KiB (200 bytes in every piece, 1000 bytes per item), 640 bytes free";
    assert!(shown.contains(why), "{shown}");
    assert!(shown.contains("\n  predict  nothing, because an item takes 1000\n"), "{shown}");
    let (_, report) = attempts(6);
    assert_eq!((report.done, report.gave_up), (100, None), "it fits: evidence beats the prediction");
}

#[test]
fn the_time_of_a_call_is_reported() {
    let (clock, predict) = (StoppedClock::new(), PerItem::of(10));
    let device = FakeDevice::new(640);
    run(&predict, Halve, &device, |items| {
        clock.advance(Duration::from_secs(1));
        items
    });
    assert_eq!(*predict.elapsed.lock().unwrap(), Duration::from_secs(2));
}
