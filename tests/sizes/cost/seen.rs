//! Events and reports of a call with costs.

use std::sync::Mutex;

use toma::classify::OutOfMemory;
use toma::observe::{Answer, Event, EventKind, Reason};
use toma::{GlobalCache, NoCache, execute, report};

const COSTS: [u64; 6] = [30, 30, 500, 30, 30, 10];

fn body(start: usize, end: usize) -> Result<(), OutOfMemory> {
    if COSTS[start..end].iter().sum::<u64>() > 40 { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

#[test]
fn events_have_sizes_in_units_and_positions_in_items() {
    let received = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| {
        received.lock().unwrap().push(match event.kind {
            EventKind::Started { initial, start, length, .. } => format!("{initial} {start} {length:?}"),
            EventKind::Answered { size, answer: Answer::Shrink(to) } => format!("{size} > {to}"),
            EventKind::Answered { answer: Answer::LeaveOut { index, cost }, .. } => {
                format!("without {index}: {cost}")
            }
            EventKind::Succeeded { start, end, .. } => format!("{start}..{end}"),
            EventKind::Settled { size, .. } => format!("settled {size}"),
            EventKind::Probe { from, to } => format!("{to} after {from}"),
            _ => return,
        });
    };
    let cache = GlobalCache::new();
    let form = execute::with::<NoCache>().cache(&cache).observer(&observer).by_cost(|i| COSTS[i]);
    form.left_out(|_| ()).range(0..6, 64, body).unwrap();
    let expected =
        ["64 64 Some(6)", "60 > 30", "0..1", "1..2", "without 2: 500", "3..4", "4..5", "5..6", "settled 30"];
    assert_eq!(received.into_inner().unwrap(), expected);
}

#[test]
fn an_item_that_is_left_out_is_in_the_report_of_an_undo_that_panics() {
    let form = execute::with::<NoCache>().by_cost(|i| COSTS[i]).left_out(|_| ());
    let form = form.before_retry(|piece| assert_ne!(piece, 2..3));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| form.range(0..6, 64, body))).unwrap_err();
    let report = report::last().unwrap();
    assert_eq!((report.done, &report.left_out[..]), (2, &[2][..]));
}

#[test]
fn a_step_beyond_everything_is_everything() {
    let form = || execute::with::<NoCache>().by_cost(|_| 7);
    form().range(0..3, 1000, |_, _| ());
    assert_eq!(report::last().unwrap().start, 21, "in units of cost, not in items");
    form().range(0..3, 10, |_, _| ());
    assert_eq!(report::last().unwrap().start, 10);
}

#[test]
fn sizes_are_costs_even_where_these_add_up_to_the_number_of_items() {
    execute::with::<NoCache>().by_cost(|i| i).range(0..3, 10, |_, _| ());
    assert!(report::last().unwrap().sizes_are_costs);
    execute::with::<NoCache>().range(0..3, 10, |_, _| ());
    assert!(!report::last().unwrap().sizes_are_costs);
}

#[test]
fn a_failure_that_goes_through_in_the_end_is_why_the_call_gave_up() {
    let received = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| {
        if let EventKind::Answered { size, answer: Answer::GiveUp(reason) } = event.kind {
            received.lock().unwrap().push((size, reason));
        }
    };
    let form = || execute::with::<NoCache>().observer(&observer).by_cost(|i| COSTS[i]);
    form().range(0..6, 64, body).unwrap_err();
    assert_eq!(received.lock().unwrap().drain(..).collect::<Vec<_>>(), [(500, Reason::LeftOut)]);
    let report = report::last().unwrap();
    assert_eq!((report.gave_up, report.done), (Some(Reason::LeftOut), 5));
    form().left_out(|_| ()).range(0..6, 64, body).unwrap();
    assert_eq!((received.lock().unwrap().len(), report::last().unwrap().gave_up), (0, None));
    assert_eq!(form().iter(0..6, 64, body).filter(Result::is_err).count(), 1);
    assert_eq!((received.lock().unwrap().len(), report::last().unwrap().gave_up), (1, Some(Reason::LeftOut)));
}

#[test]
fn a_long_list_is_cut() {
    execute::with::<NoCache>()
        .by_cost(|_| 2)
        .left_out(|_| ())
        .range(0..300, 1, |_, _| Err(OutOfMemory::new(None)))
        .unwrap();
    let report = report::last().unwrap();
    assert_eq!((report.left_out.len(), report.out_of_memory), (256, 300));
    assert!(
        report
            .to_string()
            .contains("left out items 0, 1, 2, 3, 4, 5, 6, 7, ..., which do not fit by themselves"),
        "{report}"
    );
}

/// A piece may be smaller than the step, so a step that no piece filled has neither worked nor failed.
#[test]
fn a_report_has_the_costs_that_ran_and_failed() {
    let costs = |item: usize| if item % 7 == 3 { 200u64 } else { 1 };
    let with = execute::with::<NoCache>().by_cost(costs).left_out(|_| ());
    with.range(0..21, 640, |start, end| {
        let cost = (start..end).map(costs).sum::<u64>();
        if cost > 100 { Err(OutOfMemory::new(Some(cost))) } else { Ok(()) }
    })
    .unwrap();
    let report = report::last().unwrap();
    let worked: Vec<_> = report.tried.iter().filter(|tried| tried.succeeded > 0).collect();
    assert!(!worked.is_empty() && worked.iter().all(|tried| tried.size <= 6), "{report}");
    let failed = report.tried.iter().filter(|tried| tried.failed.is_some());
    assert!(failed.clone().all(|tried| tried.size >= 200), "{report}");
    assert_eq!(failed.filter(|tried| tried.size == 200).count(), 3, "{report}");
}
