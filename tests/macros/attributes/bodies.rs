//! Control flow in bodies: early returns, loops, inner functions and closures, recursion.

use std::cell::Cell;
use std::num::ParseIntError;

use toma::NoCache;

use crate::attributes::{allocate_or_panic, failures, fits};

#[toma::batch(initial = 16, cache = NoCache)]
fn returns_early(size: usize, limit: usize) -> &'static str {
    if size == limit {
        return "early";
    }
    allocate_or_panic(size, limit);
    "late"
}

#[toma::range(initial = 16, cache = NoCache)]
fn skips(start: usize, end: usize, later: &mut Vec<usize>) {
    if start < 16 {
        return;
    }
    later.extend(start..end);
}

#[toma::batch(initial = 16, cache = NoCache)]
fn question_mark(size: usize, number: &str) -> Result<usize, Box<dyn std::error::Error>> {
    fits(size, 8)?;
    Ok(size + number.parse::<usize>()?)
}

#[toma::batch(initial = 16, cache = NoCache)]
fn question_mark_of_option(size: usize, numbers: &[usize]) -> Option<usize> {
    allocate_or_panic(size, 4);
    let last = numbers.get(size)?;
    Some(*last)
}

#[test]
fn early_returns() {
    assert_eq!(returns_early(16), "early");
    assert_eq!((returns_early(8), failures()), ("early", 1));
    assert_eq!(returns_early(9), "late");
    let mut later = Vec::new();
    skips(0, 32, &mut later);
    assert_eq!(later[..2], [16, 17]);
    assert_eq!(question_mark("1").unwrap(), 9);
    assert!(question_mark("one").unwrap_err().is::<ParseIntError>());
    assert_eq!(failures(), 1);
    assert_eq!(question_mark_of_option(&[7; 5]), Some(7));
    assert_eq!(question_mark_of_option(&[7; 4]), None);
}

#[toma::batch(initial = 16, cache = NoCache)]
fn loops(mut size: usize) -> usize {
    allocate_or_panic(size, 8);
    let mut rounds = 0;
    'outer: loop {
        while size > 0 {
            rounds += 1;
            if rounds > 100 {
                break 'outer;
            }
            for subtracted in 0..2 {
                size -= 1;
                if subtracted == 0 {
                    continue 'outer;
                }
            }
        }
        break;
    }
    rounds
}

#[toma::batch(initial = 16, cache = NoCache)]
fn defines(size: usize, factor: usize) -> usize {
    #[derive(Clone, Copy)]
    struct Local(usize);
    const LIMIT: usize = 8;
    static OFFSET: usize = 100;
    fn inner(local: Local) -> usize {
        return local.0 + OFFSET;
    }
    allocate_or_panic(size, LIMIT);
    let scaled = |value: usize| {
        if value == 0 {
            return 0;
        }
        value * factor
    };
    let owned = move || inner(Local(scaled(size)));
    owned()
}

#[toma::batch(initial = 16, cache = NoCache)]
fn calls_itself(size: usize, depth: usize) -> usize {
    allocate_or_panic(size, 8);
    if depth == 0 { 0 } else { size + calls_itself(depth - 1) }
}

#[toma::batch(initial = 16, cache = NoCache)]
fn has_one_inside(size: usize) -> usize {
    #[toma::batch(initial = size, cache = NoCache)]
    fn inside(smaller: usize, size: usize) -> usize {
        allocate_or_panic(smaller, 2);
        size * 10 + smaller
    }
    allocate_or_panic(size, 8);
    inside(size)
}

#[toma::batch(initial = 16, cache = NoCache)]
fn has_attributes_inside(size: usize) -> usize {
    #![expect(unused_variables, reason = "an attribute at the head of the body")]
    let unused = 1;
    #[cfg(any())]
    compile_error!("this line is not there");
    allocate_or_panic(size, 8);
    size
}

#[test]
fn bodies_may_contain_loops_items_and_calls() {
    assert_eq!(loops(), 8);
    assert_eq!(defines(3), 124);
    assert_eq!(calls_itself(3), 24);
    assert_eq!(has_one_inside(), 82);
    assert_eq!(has_attributes_inside(), 8);
}

#[toma::batch(initial = 16, cache = NoCache)]
fn borrows(size: usize, text: String, numbers: &mut Vec<usize>, runs: &Cell<usize>) -> String {
    runs.set(runs.get() + 1);
    numbers.push(size);
    push(numbers, size + 1);
    allocate_or_panic(size, 8);
    text.clone() + &text
}

fn push(numbers: &mut Vec<usize>, number: usize) {
    numbers.push(number);
}

#[test]
fn arguments_are_borrowed_by_every_attempt() {
    let (mut numbers, runs) = (Vec::new(), Cell::new(0));
    assert_eq!(borrows(String::from("ab"), &mut numbers, &runs), "abab");
    assert_eq!((numbers, runs.get()), (vec![16, 17, 8, 9], 2));
}
