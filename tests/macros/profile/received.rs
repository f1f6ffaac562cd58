//! Tests the marks of functions: each line, each hit and each frame, in order.

use std::cell::Cell;
use std::panic::catch_unwind;
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;
use std::thread;

use toma::classify::OutOfMemory;
use toma::marks::Session;

use crate::executor::{block_on, pause, poll};
use crate::profile::sink::{received, received_by, received_from};

#[toma::profile]
fn loops(n: u32) -> u32 {
    let mut sum = 0;
    for i in 0..n {
        if i == 1 {
            continue;
        }
        sum += i;
    }
    let found = loop {
        sum += 1;
        if sum > 3 {
            break sum;
        }
    };
    while sum > 4 {
        sum -= 1;
    }
    found
}

#[test]
fn loops_hit_their_lines_again() {
    let body = |i| if i == 1 { "3 4 ^3 ^2" } else { "3 6 7 ^2" };
    let expected = format!("loops( 1 2 {} {} {} 8 9 10 ^8 9 10 11 ^10 ^8 14 17 )", body(0), body(1), body(2));
    assert_eq!(received(|| assert_eq!(loops(3), 4)), expected);
}

#[toma::profile]
fn exits(text: &str) -> Result<u8, std::num::ParseIntError> {
    if text.is_empty() {
        return Ok(0);
    }
    {
        let Some(rest) = text.strip_prefix('x') else {
            let n = text.parse()?;
            return Ok(n);
        };
        let _ = rest.parse::<u8>()?;
    }
    Ok(1)
}

#[test]
fn every_way_out_leaves_its_blocks() {
    assert_eq!(received(|| assert_eq!(exits(""), Ok(0))), "exits( 1 2 ^1 )");
    assert_eq!(received(|| assert_eq!(exits("7"), Ok(7))), "exits( 1 4 5 6 7 ^5 ^4 )");
    assert_eq!(received(|| assert!(exits("a").is_err())), "exits( 1 4 5 6 ^5 ^4 )");
    assert_eq!(received(|| assert!(exits("xx").is_err())), "exits( 1 4 5 9 ^4 )");
    assert_eq!(received(|| assert_eq!(exits("x1"), Ok(1))), "exits( 1 4 5 9 10 ^4 11 )");
}

#[toma::profile]
fn arms(n: Option<u32>) -> u32 {
    let value = match n {
        Some(n) if n > 9 => n,
        Some(0) => {
            let zero = 0;
            zero + 1
        }
        Some(n) => n * 2,
        None => return 7,
    };
    'block: {
        if value == 1 {
            break 'block;
        }
        let _ = value + 1;
    }
    value
}

#[test]
fn arms_are_blocks() {
    assert_eq!(received(|| assert_eq!(arms(Some(10)), 10)), "arms( 1 2 ^1 10 11 14 15 ^10 16 )");
    assert_eq!(received(|| assert_eq!(arms(Some(0)), 1)), "arms( 1 4 5 ^1 10 11 12 ^11 ^10 16 )");
    assert_eq!(received(|| assert_eq!(arms(None), 7)), "arms( 1 8 ^1 )");
}

#[toma::profile]
fn recursive(n: u32) -> u32 {
    if n == 0 {
        panic!("the end");
    }
    recursive(n - 1)
}

#[test]
fn frames_nest_and_unwind() {
    let caught = received(|| assert!(catch_unwind(|| recursive(1)).is_err()));
    assert_eq!(caught, "recursive( 1 4 recursive( 1 2 ^1 ) )");
}

#[toma::profile]
fn later() -> impl FnOnce(u32) -> u32 + Send + 'static {
    let twice = |x| x * 2;
    move |x| {
        let y = twice(x);
        y + 1
    }
}

#[test]
fn closures_mark_where_they_run() {
    let made = Mutex::new(None);
    assert_eq!(received(|| *made.lock().unwrap() = Some(later())), "later( 1 2 )");
    let run = || {
        let closure = made.lock().unwrap().take().unwrap();
        let runs = thread::spawn(move || assert_eq!(closure(3), 7));
        let thread = runs.thread().id();
        runs.join().unwrap();
        thread
    };
    assert_eq!(received_by(run), "later+2( 3 later+1( ) 4 )");
}

/// Marks a line of its own when it is dropped.
struct Loud;

impl Drop for Loud {
    #[toma::profile(name = "drop")]
    fn drop(&mut self) {
        std::hint::black_box(());
    }
}

#[toma::profile]
async fn waits(n: u32) -> u32 {
    let _loud = Loud;
    for _ in 0..n {
        pause().await;
    }
    let block = async {
        pause().await;
        1
    };
    block.await + n
}

#[test]
fn a_task_is_in_no_line_while_it_waits() {
    let received = received(|| {
        let mut task = pin!(waits(1));
        assert_eq!(poll(task.as_mut()), Poll::Pending);
        assert_eq!(loops(0), 4);
        assert_eq!(poll(task.as_mut()), Poll::Pending);
        assert_eq!(poll(task.as_mut()), Poll::Ready(2));
    });
    let (first, rest) = received.split_once("waits~").unwrap();
    assert!(first.starts_with("waits( 1 2 3 ) loops( 1 2 8 9 10 ^8"), "{first}");
    assert!(first.ends_with("14 17 ) "), "{first}");
    let again = "3( 4 ^2 5 9 waits+5( 6 ) ) waits~9( waits~6( 7 ) drop( 1 2 ) )";
    assert_eq!(rest, again);
}

#[test]
fn values_of_a_dropped_task_are_dropped_in_its_line() {
    let received = received(|| {
        let mut task = Box::pin(waits(1));
        assert_eq!(poll(task.as_mut()), Poll::Pending);
        drop(task);
        drop(waits(1));
    });
    assert_eq!(received, "waits( 1 2 3 ) waits~3( ^2 drop( 1 2 ) )");
}

type Tried = Result<(), OutOfMemory>;

fn fits(start: usize, end: usize) -> Tried {
    if end - start > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

#[toma::profile(name = "range")]
#[toma::range(initial = 2, cache = toma::NoCache)]
fn above(start: usize, end: usize) -> Tried {
    let fits = fits(start, end);
    fits?;
    Ok(())
}

#[toma::range(initial = 2, cache = toma::NoCache)]
#[toma::profile(name = "range")]
fn beneath(start: usize, end: usize) -> Tried {
    let fits = fits(start, end);
    fits?;
    Ok(())
}

#[toma::range(initial = 2, cache = toma::NoCache, before_retry = undone.set(undone.get() + 1))]
#[toma::profile(name = "range")]
fn beneath_undo(start: usize, end: usize, undone: &Cell<u32>) -> Tried {
    let fits = fits(start, end);
    fits?;
    Ok(())
}

#[toma::profile(name = "range")]
#[toma::range(initial = 2, cache = toma::NoCache)]
async fn above_async(start: usize, end: usize) -> Tried {
    let fits = fits(start, end);
    fits?;
    Ok(())
}

#[toma::range(initial = 2, cache = toma::NoCache)]
#[toma::profile(name = "range")]
async fn beneath_async(start: usize, end: usize) -> Tried {
    let fits = fits(start, end);
    fits?;
    Ok(())
}

struct Net(u32);

impl Net {
    #[toma::profile(name = "chunked")]
    #[toma::chunked(initial = 2, cache = toma::NoCache)]
    fn chunked_above(&self, data: &mut [u32], start: usize, end: usize) -> Tried {
        fits(start, end)?;
        data.fill(self.0);
        Ok(())
    }

    #[toma::chunked(initial = 2, cache = toma::NoCache)]
    #[toma::profile(name = "chunked")]
    fn chunked_beneath(&self, data: &mut [u32], start: usize, end: usize) -> Tried {
        fits(start, end)?;
        data.fill(self.0);
        Ok(())
    }

    #[toma::profile(name = "batch")]
    #[toma::batch(initial = 2, cache = toma::NoCache)]
    async fn batch_above(&self, size: usize, kept: &mut u32) -> Result<u32, OutOfMemory> {
        *kept += self.0;
        fits(0, size)?;
        Ok(*kept)
    }

    #[toma::batch(initial = 2, cache = toma::NoCache)]
    #[toma::profile(name = "batch")]
    async fn batch_beneath(&self, size: usize, kept: &mut u32) -> Result<u32, OutOfMemory> {
        *kept += self.0;
        fits(0, size)?;
        Ok(*kept)
    }
}

#[test]
fn so_do_those_of_methods_and_their_futures_are_send() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let (net, mut data) = (Net(7), [0; 2]);
    let expected = "chunked( 1 ) chunked( 1 2 3 ) chunked( 1 2 3 )";
    assert_eq!(received(|| assert!(net.chunked_above(&mut data).is_ok())), expected);
    assert_eq!(received(|| assert!(net.chunked_beneath(&mut data).is_ok())), expected);
    assert_eq!(data, [7; 2]);
    let mut kept = 0;
    let above = received(|| assert!(block_on(is_send(net.batch_above(&mut kept))).is_ok()));
    let beneath = received(|| assert!(block_on(is_send(net.batch_beneath(&mut kept))).is_ok()));
    assert_eq!((&*above, &*beneath), ("batch( 1 2 ) batch( 1 2 3 )", &*above));
    assert_eq!(kept, 28);
}

#[test]
fn attributes_in_either_order_mark_the_same() {
    let undone = Cell::new(0);
    let expected = "range( 1 2 ) range( 1 2 3 ) range( 1 2 3 )";
    assert_eq!(received(|| assert!(above(0, 2).is_ok())), expected);
    assert_eq!(received(|| assert!(beneath(0, 2).is_ok())), expected);
    assert_eq!(received(|| assert!(beneath_undo(0, 2, &undone).is_ok())), expected);
    assert_eq!(undone.get(), 1);
    assert_eq!(received(|| assert!(block_on(above_async(0, 2)).is_ok())), expected);
    assert_eq!(received(|| assert!(block_on(beneath_async(0, 2)).is_ok())), expected);
}

#[toma::profile]
fn around(inside: impl FnOnce()) {
    let before = 1;
    inside();
    std::hint::black_box(before);
}

#[toma::profile]
fn middle(start: &dyn Fn() -> Session) {
    let session = start();
    for _ in 0..1 {
        around(|| ());
    }
    drop(session);
    around(|| ());
}

#[test]
fn a_session_that_begins_in_the_middle_receives_marks_without_a_frame() {
    assert_eq!(received_from(middle), "? ? around( 1 2 3 4 ) ? ? ?");
}
