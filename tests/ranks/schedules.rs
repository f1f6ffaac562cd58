//! Random schedules against a twin that knows all ranks at once.

use std::cell::RefCell;
use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::thread;

use proptest::prelude::*;
use toma::classify::Class;
use toma::ranks::{Group, Member};
use toma::{NoCache, execute};

use crate::kit::on_each;

/// Work of one rank, and the failures on it.
#[derive(Clone, Debug)]
struct Part {
    items: usize,
    /// Number of items in the largest piece that fits.
    room: usize,
    /// Numbers of attempts that fail once for a reason other than the size.
    hiccups: HashSet<usize>,
    /// Number of the attempt that fails for good.
    ends_at: Option<usize>,
}

fn part() -> impl Strategy<Value = Part> {
    let ends_at = prop_oneof![9 => Just(None), 1 => (0..12_usize).prop_map(Some)];
    let hiccups = proptest::collection::hash_set(0..30_usize, 0..3);
    (0..30_usize, 0..20_usize, hiccups, ends_at).prop_map(|(items, room, hiccups, ends_at)| Part {
        items,
        room,
        hiccups,
        ends_at,
    })
}

/// Record of a rank: its attempts, and how it ended.
#[derive(Debug, PartialEq)]
struct Ran {
    attempts: Vec<Range<usize>>,
    done: Vec<usize>,
    is_ok: bool,
}

#[derive(Debug)]
struct Failed(Class);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Error for Failed {}

/// Runs one attempt of a rank.
fn body(part: &Part, number: usize, piece: &Range<usize>) -> Result<(), Failed> {
    match () {
        () if part.ends_at == Some(number) => Err(Failed(Class::Other)),
        () if piece.len() > part.room => Err(Failed(Class::OutOfMemory)),
        () if part.hiccups.contains(&number) => Err(Failed(Class::Transient)),
        () => Ok(()),
    }
}

fn run(rank: &Member, part: &Part, initial: usize) -> Ran {
    let (attempts, done) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    toma::ranks::add_error(|_| Failed(Class::Other));
    toma::classify::add_error(|failed: &Failed| Some(failed.0));
    let ended = execute::with::<NoCache>()
        .name("work")
        .ranks(rank)
        .before_retry(|failed| done.borrow_mut().truncate(failed.start))
        .range(0..part.items, initial, |start, end| {
            let number = attempts.borrow().len();
            attempts.borrow_mut().push(start..end);
            if number % 3 == rank.rank() % 3 {
                thread::yield_now();
            }
            done.borrow_mut().extend(start..end);
            body(part, number, &(start..end))
        });
    Ran { attempts: attempts.into_inner(), done: done.into_inner(), is_ok: ended.is_ok() }
}

/// Runs all ranks in lockstep.
fn twin(parts: &[Part], initial: usize) -> Vec<Ran> {
    let mut ran: Vec<_> =
        parts.iter().map(|_| Ran { attempts: Vec::new(), done: Vec::new(), is_ok: true }).collect();
    let (mut position, mut again) = (vec![0; parts.len()], vec![false; parts.len()]);
    let mut step = initial;
    while (0..parts.len()).any(|rank| position[rank] < parts[rank].items) {
        let (mut next, mut failed) = (step, false);
        for (rank, part) in parts.iter().enumerate().filter(|(rank, part)| position[*rank] < part.items) {
            let piece = position[rank]..part.items.min(position[rank] + step);
            let outcome = body(part, ran[rank].attempts.len(), &piece);
            ran[rank].attempts.push(piece.clone());
            let ends = match outcome.err().map(|failed| failed.0) {
                None => false,
                Some(Class::OutOfMemory) if piece.len() > 1 => {
                    next = next.min(piece.len() / 2);
                    failed = true;
                    false
                }
                Some(Class::Transient) if !again[rank] => {
                    again[rank] = true;
                    failed = true;
                    false
                }
                Some(_) => true,
            };
            if ends {
                for ran in &mut ran {
                    ran.is_ok = false;
                }
            }
        }
        if !ran[0].is_ok {
            break;
        }
        if next < step {
            again.fill(false);
        }
        step = next;
        for (rank, part) in parts.iter().enumerate().filter(|_| !failed) {
            position[rank] = part.items.min(position[rank] + step);
            again[rank] = false;
        }
    }
    for (rank, ran) in ran.iter_mut().enumerate() {
        ran.done = (0..position[rank]).collect();
    }
    ran
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranks_make_the_attempts_of_the_twin(
        parts in proptest::collection::vec(part(), 2..=5),
        initial in 1..24_usize,
    ) {
        let expected = twin(&parts, initial);
        let ran = on_each(parts.len(), |rank| run(&rank, &parts[rank.rank()], initial));
        for (rank, (mut ran, expected)) in ran.into_iter().zip(expected).enumerate() {
            // The work of the last attempt is not undone when the call ends.
            ran.done.truncate(expected.done.len());
            prop_assert_eq!(ran, expected, "rank {}", rank);
        }
    }
}
