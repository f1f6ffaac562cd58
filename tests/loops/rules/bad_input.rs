//! Bad input panics with the names and the values of the options, before the body runs.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::{Just, Strategy, prop_oneof};
use toma::{NoCache, execute};

use crate::printed::printed;
use crate::rules::cases::check;

#[derive(Clone, Copy, Debug)]
struct Sizes {
    initial: i64,
    min: i64,
    max: i64,
    multiple_of: i64,
    max_attempts: usize,
    start: i64,
    end: i64,
}

fn sizes(least: i64) -> impl Strategy<Value = Sizes> {
    let size = move || prop_oneof![1 => Just(least), 8 => 1..=9_i64];
    (size(), size(), size(), size(), 0..=5_usize, least..=9, least..=9).prop_map(
        |(initial, min, max, multiple_of, max_attempts, start, end)| Sizes {
            initial,
            min,
            max,
            multiple_of,
            max_attempts,
            start,
            end,
        },
    )
}

impl Sizes {
    /// Returns the possible messages for these sizes; none if they are valid.
    fn mistakes(&self, has_range: bool) -> Vec<String> {
        let &Self { initial, min, max, multiple_of, max_attempts, start, end } = self;
        let mut mistakes = Vec::new();
        let sizes = [("initial", initial), ("min", min), ("max", max), ("multiple_of", multiple_of)];
        for (name, value) in sizes.into_iter().chain([("max_attempts", max_attempts as i64)]) {
            if value < 1 {
                mistakes.push(format!("{name} {value}: must be at least 1"));
            }
        }
        if has_range && start > end {
            mistakes.push(format!("start {start}: must be at most end {end}"));
        }
        for (name, limit) in [("initial", initial), ("max", max)] {
            if min > limit {
                mistakes.push(format!("min {min}: must be at most {name} {limit}"));
            }
            if min < 1 || multiple_of < 1 {
                continue;
            }
            let floor = min.max(multiple_of) as usize;
            let floor = floor.next_multiple_of(multiple_of as usize) as i64;
            if floor > limit {
                let why = format!("min {min}, multiple_of {multiple_of}");
                mistakes.push(format!("{name} {limit}: must be at least the floor {floor} ({why})"));
            }
        }
        mistakes
    }

    /// Asserts that invalid sizes panic with the name and a message before the body runs, and valid ones do not.
    fn judge(&self, has_range: bool, name: &str, call: impl FnOnce(&dyn Fn())) {
        let mistakes = self.mistakes(has_range);
        let ran = Cell::new(false);
        let run = || ran.set(true);
        let (result, printed) = printed(|| catch_unwind(AssertUnwindSafe(|| call(&run))));
        match result {
            Ok(()) => assert!(mistakes.is_empty(), "accepted in spite of {mistakes:?}"),
            Err(payload) => {
                let text = text(payload);
                let (call, text) = text.split_once(": ").expect("the name comes first");
                assert!(call.contains(name), "{call} is not {name}");
                assert!(mistakes.iter().any(|mistake| mistake == text), "{text:?} is none of {mistakes:?}");
                assert_eq!((ran.get(), printed), (false, 1));
            }
        }
    }
}

macro_rules! with {
    ($sizes:expr) => {
        execute::with::<NoCache>()
            .min($sizes.min as usize)
            .max($sizes.max as usize)
            .multiple_of($sizes.multiple_of as usize)
            .max_attempts($sizes.max_attempts)
    };
}

#[test]
fn inline_forms_name_the_mistake() {
    check((sizes(0), 0..5_u8), |(sizes, form)| {
        let initial = sizes.initial as usize;
        let range = sizes.start as usize..sizes.end as usize;
        sizes.judge(matches!(form, 0..=2), "tests/loops/rules/bad_input.rs:", |run| match form {
            0 => with!(sizes).range(range, initial, |_start, _end| run()),
            1 => drop(with!(sizes).map(range, initial, |_start, _end| run())),
            2 => with!(sizes).fold(range, initial, (), |(), _start, _end| run()),
            3 => with!(sizes).chunked(&[0; 20][..], initial, |_chunk, _start, _end| run()),
            _ => with!(sizes).batch(initial, |_size| run()),
        });
    });
}

#[toma::batch(
    initial = sizes.initial, min = sizes.min, max = sizes.max, multiple_of = sizes.multiple_of,
    max_attempts = sizes.max_attempts, cache = NoCache,
)]
fn batch(batch_size: i64, sizes: &Sizes, run: &dyn Fn()) {
    assert!(batch_size > 0);
    run();
}

#[toma::range(
    initial = sizes.initial, min = sizes.min, max = sizes.max, multiple_of = sizes.multiple_of,
    max_attempts = sizes.max_attempts, cache = NoCache,
)]
fn range(start: i64, end: i64, sizes: &Sizes, run: &dyn Fn()) {
    assert!(start < end);
    run();
}

#[toma::chunked(
    initial = sizes.initial, min = sizes.min, max = sizes.max, multiple_of = sizes.multiple_of,
    max_attempts = sizes.max_attempts, cache = NoCache,
)]
fn chunked(data: &[u8], start: i64, end: i64, sizes: &Sizes, run: &dyn Fn()) {
    assert_eq!(data.len() as i64, end - start);
    run();
}

#[toma::range(initial = sizes.initial as usize, min = sizes.min as usize, max = sizes.max as usize,
    multiple_of = sizes.multiple_of as usize, max_attempts = sizes.max_attempts, cache = NoCache)]
async fn range_async(start: usize, end: usize, sizes: &Sizes, run: &dyn Fn()) {
    assert!(start < end);
    run();
}

#[test]
fn attributes_name_the_mistake() {
    check((sizes(-3), 0..3_u8), |(sizes, form)| {
        let name = ["rules::bad_input::range", "rules::bad_input::chunked", "rules::bad_input::batch"]
            [usize::from(*form)];
        sizes.judge(*form == 0, name, |run| match form {
            0 => range(sizes.start, sizes.end, sizes, run),
            1 => chunked(&[0; 20], sizes, run),
            _ => batch(sizes, run),
        });
    });
}

#[test]
fn async_attributes_name_the_mistake() {
    check(sizes(0), |sizes| {
        let (start, end) = (sizes.start as usize, sizes.end as usize);
        let name = "rules::bad_input::range_async";
        sizes.judge(true, name, |run| crate::executor::block_on(range_async(start, end, sizes, run)));
    });
}

fn text(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast::<String>().map(|text| *text);
    text.or_else(|payload| payload.downcast::<&str>().map(|text| text.to_string())).unwrap()
}
