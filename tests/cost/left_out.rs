//! Items that fail alone: the others are done, and somebody hears of them.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::rc::Rc;
use std::time::Duration;

use toma::classify::{Class, Failure, OutOfMemory};
use toma::execute::{self, Oversize};
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
fn the_others_are_done_and_the_first_failure_goes_through() {
    let done = RefCell::new(Vec::new());
    let all = execute::with::<NoCache>()
        .by_cost(|i| COSTS[i])
        .range(0..8, 10, |start, end| embed(start, end).map(|items| done.borrow_mut().extend(items)));
    assert_eq!(all, Err(Refused(2)));
    assert_eq!(done.into_inner(), [0, 1, 3, 4, 6, 7]);
    let report = report::last().unwrap();
    assert_eq!((report.set_aside, report.done), (vec![2, 5], 6));
    assert_eq!(report.gave_up, Some(Reason::FailedAlone));
}

#[test]
fn whoever_takes_care_of_them_gets_the_rest() {
    let mut left_out = Vec::new();
    let form = execute::with::<NoCache>().by_cost(|i| COSTS[i]).set_aside(|item| left_out.push(item));
    let rows = form.map(0..8, 10, embed).unwrap();
    assert_eq!(rows.concat(), [0, 1, 3, 4, 6, 7]);
    let told: Vec<_> = left_out.iter().map(|item| (item.index, item.cost, item.failure.class)).collect();
    assert_eq!(told, [(2, 90, Class::OutOfMemory), (5, 80, Class::OutOfMemory)]);
    assert_eq!(left_out[1].to_string(), "item 5, which costs 80: CUDA out of memory. At 5");
}

#[test]
fn panics_are_kept_too() {
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
    assert_eq!(done.into_inner(), [0, 1, 3, 4, 6, 7]);
}

#[test]
fn panics_are_told_like_errors() {
    let mut left_out = Vec::new();
    let form = execute::with::<NoCache>().by_cost(|i| COSTS[i]).set_aside(|item| left_out.push(item));
    let rows = form.map(0..8, 10, |start, end| {
        assert!(!is_too_large(start, end), "CUDA out of memory. Tried to allocate {start}.00 GiB");
        end - start
    });
    assert_eq!(rows, [2, 2, 2]);
    let requested: Vec<_> = left_out.iter().map(|item| item.failure.requested_bytes).collect();
    assert_eq!(requested, [Some(2 << 30), Some(5 << 30)]);
}

#[test]
fn only_memory_is_a_reason() {
    let ran = Cell::new(0);
    let form = execute::with::<NoCache>().by_cost(|i| COSTS[i]).set_aside(|item| panic!("{item}"));
    let result = form.range(0..8, 10, |start, end| {
        ran.set(ran.get() + 1);
        if is_too_large(start, end) { Err("size mismatch".into()) } else { Ok::<_, Box<dyn Error>>(()) }
    });
    assert_eq!(result.unwrap_err().to_string(), "size mismatch");
    assert_eq!(ran.get(), 2, "it goes through at once");
}

#[test]
fn a_piece_at_the_floor_goes_through_at_once() {
    let mut left_out = Vec::new();
    let form =
        execute::with::<NoCache>().min(6).by_cost(|i| COSTS[i]).set_aside(|item| left_out.push(item.index));
    let result =
        form.map(0..8, 12, |start, end| if start >= 3 { Err(Refused(start)) } else { embed(start, end) });
    assert_eq!(result, Err(Refused(3)), "3..5 is no single item, and 6 is the least");
    assert_eq!(left_out, [2]);
}

/// Where the least size does not fit, weight is not what is wrong.
#[test]
fn an_item_at_the_floor_goes_through_at_once() {
    let ran = Cell::new(0);
    let form = execute::with::<NoCache>().min(3).by_cost(|i| COSTS[i]).set_aside(|item| panic!("{item}"));
    let result = form.map(0..8, 3, |start, _| {
        ran.set(ran.get() + 1);
        Err::<(), _>(Refused(start))
    });
    assert_eq!((result, ran.get()), (Err(Refused(0)), 1));
}

#[test]
fn after_the_deadline_nothing_is_left_out() {
    let form = execute::with::<NoCache>().deadline(Duration::ZERO).by_cost(|i| COSTS[i]);
    let ran = Cell::new(0);
    let result = form.set_aside(|item| panic!("{item}")).range(0..8, 10, |start, end| {
        ran.set(ran.get() + 1);
        embed(start, end).map(drop)
    });
    assert_eq!((result, ran.get()), (Err(Refused(2)), 2));
}

#[test]
fn one_attempt_is_enough_to_be_left_out() {
    let mut left_out = Vec::new();
    let form = execute::with::<NoCache>().max_attempts(1).by_cost(|i| COSTS[i]);
    form.set_aside(|item| left_out.push(item.index)).map(0..8, 10, embed).unwrap();
    assert_eq!(left_out, [2, 5]);
}

#[test]
fn a_transient_failure_has_its_second_attempt() {
    #[derive(Debug)]
    struct Hiccup;

    let (mut attempts, mut left_out) = (Vec::new(), Vec::new());
    let form = execute::with::<NoCache>().classify(|_: &Hiccup| Class::Transient).by_cost(|i| COSTS[i]);
    form.set_aside(|item: Oversize| left_out.push(item.index))
        .range(0..8, 10, |start, end| {
            let first = !attempts.contains(&(start, end));
            attempts.push((start, end));
            if first && is_too_large(start, end) { Err(Hiccup) } else { Ok(()) }
        })
        .unwrap();
    assert_eq!(attempts, [(0, 2), (2, 3), (2, 3), (3, 5), (5, 6), (5, 6), (6, 8)]);
    assert!(left_out.is_empty(), "{left_out:?}");
}

#[test]
fn all_may_fail() {
    let mut left_out = Vec::new();
    let form = execute::with::<NoCache>().by_cost(|i| COSTS[i]).set_aside(|item| left_out.push(item.index));
    let rows = form.map(0..8, 100, |start, _| Err::<(), _>(Refused(start))).unwrap();
    assert!(rows.is_empty());
    assert!(left_out.into_iter().eq(0..8));
}

/// The failed values are dropped before they are undone, and then somebody is told.
#[test]
fn it_is_told_last() {
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
        .set_aside(|_| notes.borrow_mut().push("told"))
        .range(10..15, 10, |start, end| {
            notes.borrow_mut().push("run");
            if is_too_large(start - 10, end - 10) { Err(Noted(Rc::clone(&notes))) } else { Ok(()) }
        })
        .unwrap_or_else(|_| panic!("somebody takes care"));
    assert_eq!(notes.take(), ["run", "run", "dropped", "undone", "told", "run"]);
}

#[test]
fn whoever_is_told_may_panic() {
    let done = Cell::new(0);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let form = execute::with::<NoCache>().by_cost(|i| COSTS[i]).set_aside(|_| panic!("enough"));
        form.range(0..8, 10, |start, end| embed(start, end).map(|items| done.set(done.get() + items.len())))
    }));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"enough"));
    assert_eq!(done.get(), 2);
}

#[test]
fn a_loop_around_it_may_go_on_with_less() {
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
    let form = execute::with::<NoCache>().by_cost(|_| 1).set_aside(|item| panic!("{item}"));
    let sizes = form.map(0..5, 4, |start, end| end - start);
    assert_eq!(sizes, [1; 5]);
    assert_eq!(injection.failures(), 2);
}
