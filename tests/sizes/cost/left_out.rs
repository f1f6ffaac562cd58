//! Single items that fail are reported to `left_out`, or their failure is kept, and the others are done.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::rc::Rc;
use std::time::Duration;

use toma::classify::{Class, Failure, OutOfMemory};
use toma::execute::{self, LeftOut};
use toma::observe::Reason;
use toma::{NoCache, report};

const COSTS: [u64; 8] = [3, 3, 90, 3, 3, 80, 3, 3];

fn is_too_large(start: usize, end: usize) -> bool {
    COSTS[start..end].iter().sum::<u64>() > 50
}

#[derive(Debug, PartialEq)]
struct Refused(usize);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUDA out of memory. At {}", self.0)
    }
}

impl Error for Refused {}

fn embed(start: usize, end: usize) -> Result<Vec<usize>, Refused> {
    if is_too_large(start, end) { Err(Refused(start)) } else { Ok((start..end).collect()) }
}

#[test]
fn the_first_failure_goes_through_when_the_others_are_done() {
    let done = RefCell::new(Vec::new());
    let panic = catch_unwind(AssertUnwindSafe(|| {
        execute::with::<NoCache>().by_cost(|i| COSTS[i]).range(0..8, 10, |start, end| {
            match embed(start, end) {
                Ok(items) => done.borrow_mut().extend(items),
                Err(_) => panic_any(OutOfMemory::new(Some(start as u64))),
            }
        });
    }));
    let payload = panic.unwrap_err().downcast::<OutOfMemory>().unwrap();
    assert_eq!(payload.requested_bytes(), Some(2), "the very payload of the first");
    assert_eq!(done.take(), [0, 1, 3, 4, 6, 7]);
    assert_eq!(report::last().unwrap().gave_up, Some(Reason::LeftOut));
}

#[test]
fn panics_are_reported_like_errors() {
    let mut received = Vec::new();
    let form = execute::with::<NoCache>().by_cost(|i| COSTS[i]).left_out(|item| received.push(item));
    let rows = form.map(0..8, 10, |start, end| {
        assert!(!is_too_large(start, end), "CUDA out of memory. Tried to allocate {start}.00 GiB");
        end - start
    });
    assert_eq!(rows, [2, 2, 2]);
    let requested: Vec<_> = received.iter().map(|item| item.failure.requested_bytes).collect();
    assert_eq!(requested, [Some(2 << 30), Some(5 << 30)]);
    let text = "item 5, which costs 80: CUDA out of memory. Tried to allocate 5.00 GiB";
    assert_eq!(received[1].to_string(), text);
}

#[test]
fn only_out_of_memory_is_a_reason() {
    let ran = Cell::new(0);
    let form = execute::with::<NoCache>().by_cost(|i| COSTS[i]).left_out(|item| panic!("{item}"));
    let result = form.range(0..8, 10, |start, end| {
        ran.set(ran.get() + 1);
        if is_too_large(start, end) { Err("size mismatch".into()) } else { Ok::<_, Box<dyn Error>>(()) }
    });
    assert_eq!(result.unwrap_err().to_string(), "size mismatch");
    assert_eq!(ran.get(), 2, "it goes through at once");
}

#[test]
fn after_the_deadline_nothing_is_left_out() {
    let form = execute::with::<NoCache>().deadline(Duration::ZERO).by_cost(|i| COSTS[i]);
    let ran = Cell::new(0);
    let result = form.left_out(|item| panic!("{item}")).range(0..8, 10, |start, end| {
        ran.set(ran.get() + 1);
        embed(start, end).map(drop)
    });
    assert_eq!((result, ran.get()), (Err(Refused(2)), 2));
}

/// One attempt is enough for an item that is a piece by itself, and may be too few to find such an item in a larger
/// piece.
#[test]
fn max_attempts_may_end_before_an_item_is_found() {
    let mut left_out = Vec::new();
    let form = execute::with::<NoCache>().max_attempts(1).by_cost(|i| COSTS[i]);
    form.left_out(|item| left_out.push(item.index)).map(0..8, 10, embed).unwrap();
    assert_eq!(left_out, [2, 5]);
    let attempts = |most| {
        let form = execute::with::<NoCache>().max_attempts(most).by_cost(|_| 2).left_out(|_| ());
        let fails = |_, end| if end > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) };
        let result = form.range(0..3, 8, fails);
        (result.is_ok(), report::last().unwrap().attempts)
    };
    // 0..3, then 0..1, 1..2 and 2..3, the last of which is a single item.
    assert_eq!([1, 2, 3].map(attempts), [(false, 1), (true, 4), (true, 4)]);
}

#[test]
fn a_transient_failure_has_its_second_attempt() {
    #[derive(Debug)]
    struct Hiccup;

    let (mut attempts, mut left_out) = (Vec::new(), Vec::new());
    let form = execute::with::<NoCache>().classify(|_: &Hiccup| Class::Transient).by_cost(|i| COSTS[i]);
    form.left_out(|item: LeftOut| left_out.push(item.index))
        .range(0..8, 10, |start, end| {
            let first = !attempts.contains(&(start, end));
            attempts.push((start, end));
            if first && is_too_large(start, end) { Err(Hiccup) } else { Ok(()) }
        })
        .unwrap();
    assert_eq!(attempts, [(0, 2), (2, 3), (2, 3), (3, 5), (5, 6), (5, 6), (6, 8)]);
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// The failed values are dropped, then `before_retry` runs, then the item is reported.
#[test]
fn the_report_comes_last() {
    struct Noted(Rc<RefCell<Vec<&'static str>>>);

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.borrow_mut().push("dropped");
        }
    }

    let notes = Rc::<RefCell<Vec<_>>>::default();
    execute::with::<NoCache>()
        .before_retry(|failed| {
            assert_eq!(failed, 12..13);
            notes.borrow_mut().push("undone");
        })
        .classify(|_: &Noted| Failure::new(Class::OutOfMemory, "full"))
        .by_cost(|i| COSTS[i - 10])
        .left_out(|_| notes.borrow_mut().push("reported"))
        .range(10..15, 10, |start, end| {
            notes.borrow_mut().push("run");
            if is_too_large(start - 10, end - 10) { Err(Noted(Rc::clone(&notes))) } else { Ok(()) }
        })
        .unwrap_or_else(|_| panic!("it is reported"));
    assert_eq!(notes.take(), ["run", "run", "dropped", "undone", "reported", "run"]);
}

#[test]
fn the_closure_that_receives_an_item_may_panic() {
    let done = Cell::new(0);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let form = execute::with::<NoCache>().by_cost(|i| COSTS[i]).left_out(|_| panic!("enough"));
        form.range(0..8, 10, |start, end| embed(start, end).map(|items| done.set(done.get() + items.len())))
    }));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"enough"));
    assert_eq!(done.get(), 2);
}

#[test]
fn an_enclosing_loop_may_go_on_with_less() {
    let sizes = RefCell::new(Vec::new());
    let done = execute::with::<NoCache>().batch(90, |most: usize| {
        sizes.borrow_mut().push(most);
        execute::with::<NoCache>()
            .by_cost(|i| COSTS[i])
            .range(0..8, 10, |start, end| if most > 30 { embed(start, end).map(drop) } else { Ok(()) })
    });
    assert_eq!(done, Ok(()));
    assert_eq!(sizes.into_inner(), [90, 45, 22]);
}

#[cfg(feature = "testing")]
#[test]
fn injection_leaves_nothing_out() {
    let injection = toma::testing::inject::above(0);
    let form = execute::with::<NoCache>().by_cost(|_| 1).left_out(|item| panic!("{item}"));
    let sizes = form.map(0..5, 4, |start, end| end - start);
    assert_eq!(sizes, [1; 5]);
    assert_eq!(injection.failures(), 2);
}
