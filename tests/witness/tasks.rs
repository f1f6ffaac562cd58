//! Asynchronous attempts: they are entered for each poll, on the polling thread, and on the thread that drops them.

use std::pin::{Pin, pin};
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::thread;

use expect_test::expect;
use toma::classify::OutOfMemory;
use toma::{NoCache, execute};

use crate::executor::{block_on, pause, poll};
use crate::scripted::{Session, depth, lines, note, thread_ends};

/// A value in a body that waits.
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        note(format!("dropped at depth {}", depth()));
    }
}

#[toma::batch(initial = 2, cache = NoCache)]
async fn step(size: usize) -> Result<usize, OutOfMemory> {
    let _held = Held;
    pause().await;
    if size > 1 {
        return Err(OutOfMemory::new(None));
    }
    pause().await;
    Ok(size)
}

#[toma::chunked(initial = 2, cache = NoCache, before_retry = note("undone"))]
async fn chunks(data: &mut [u8], start: usize, end: usize) -> Result<(), OutOfMemory> {
    pause().await;
    data.fill(1);
    if end - start > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

#[test]
fn views_are_made_inside_and_undoing_is_outside() {
    let session = Session::new();
    block_on(chunks(&mut [0; 2])).unwrap();
    expect![[r"
        enter a1 0..2
        leave a1
        enter a1 0..2 again
        leave a1
        enter a1 0..2 again
        leave a1
        asked
        enter a1 0..2 again
        leave a1
        ended a1: Failed(OutOfMemory)
        undone
        enter a2 0..1
        leave a2
        enter a2 0..1 again
        leave a2
        enter a2 0..1 again
        leave a2
        ended a2: Succeeded
        enter a3 1..2
        leave a3
        enter a3 1..2 again
        leave a3
        enter a3 1..2 again
        leave a3
        ended a3: Succeeded
    "]]
    .assert_eq(&session.take());
}

#[test]
fn a_body_that_is_dropped_while_it_waits_is_dropped_inside() {
    let session = Session::new();
    for polls in 0..5 {
        let mut task = Box::pin(step());
        for _ in 0..polls {
            assert!(poll(task.as_mut()).is_pending());
        }
        lines();
        drop(task);
        let received = session.take();
        let received: Vec<_> = received.lines().map(|line| line.split(' ').next().unwrap()).collect();
        let expected: &[&str] = match polls {
            // Before the first attempt, and between two attempts.
            0 | 2 => &[],
            _ => &["enter", "dropped", "leave", "ended"],
        };
        assert_eq!(received, expected, "after {polls} polls");
    }
}

#[test]
fn loops_that_wait_inside_each_other_are_dropped_inside_each_other() {
    #[toma::range(initial = 2, cache = NoCache)]
    async fn outer(start: usize, end: usize) -> Result<(), OutOfMemory> {
        let _held = Held;
        assert_eq!((start, end), (0, 2));
        step().await.map(drop)
    }
    let session = Session::new();
    let mut task = Box::pin(outer(0, 2));
    assert!(poll(task.as_mut()).is_pending());
    drop(task);
    expect![[r"
        enter a1 0..2
        enter b1 0..2
        leave b1
        leave a1
        enter a1 0..2 again
        enter b1 0..2 again
        dropped at depth 2
        leave b1
        ended b1: Abandoned
        dropped at depth 1
        leave a1
        ended a1: Abandoned
    "]]
    .assert_eq(&session.take());
}

#[test]
fn a_stream_that_is_dropped_while_it_waits() {
    let session = Session::new();
    let body = async |start: usize, end: usize| {
        let _held = Held;
        pause().await;
        end - start
    };
    let mut stream = execute::with::<NoCache>().stream(0..4, 2, body);
    assert_eq!(block_on(stream.next()), Some(2));
    assert!(poll(pin!(stream.next())).is_pending());
    lines();
    drop(stream);
    expect![[r"
        enter a2 2..4 again
        dropped at depth 1
        leave a2
        ended a2: Abandoned
    "]]
    .assert_eq(&session.take());
}

/// Polls once on a thread of its own, and returns the notifications of that thread.
fn poll_elsewhere<F: Future + Send + 'static>(
    mut task: Pin<Box<F>>,
) -> (Pin<Box<F>>, Poll<F::Output>, Vec<String>)
where
    F::Output: Send + 'static,
{
    let work = move || {
        let polled = poll(task.as_mut());
        thread_ends();
        (task, polled, lines())
    };
    thread::spawn(work).join().unwrap()
}

#[test]
fn a_task_is_entered_where_it_is_polled() {
    let session = Session::new();
    let mut task = Box::pin(step());
    let mut received = Vec::new();
    loop {
        let (back, polled, lines) = poll_elsewhere(task);
        task = back;
        received.push(lines.join(", "));
        if let Poll::Ready(size) = polled {
            assert_eq!(size.unwrap(), 1);
            break;
        }
    }
    assert_eq!(session.take(), "", "this thread ran nothing");
    assert_eq!(
        received,
        [
            "enter a1 0..2, leave a1",
            "enter a1 0..2 again, dropped at depth 1, leave a1, asked, enter a1 0..2 again, leave a1, \
             ended a1: Failed(OutOfMemory)",
            "enter a2 0..1, leave a2",
            "enter a2 0..1 again, leave a2",
            "enter a2 0..1 again, dropped at depth 1, leave a2, ended a2: Succeeded",
        ]
    );
}

#[test]
fn a_task_that_was_polled_elsewhere_is_dropped_here() {
    let session = Session::new();
    let (task, polled, received) = poll_elsewhere(Box::pin(step()));
    assert!(polled.is_pending());
    assert_eq!(received, ["enter a1 0..2", "leave a1"]);
    drop(task);
    expect![[r"
        enter a1 0..2 again
        dropped at depth 1
        leave a1
        ended a1: Abandoned
    "]]
    .assert_eq(&session.take());
}

#[test]
fn two_threads_are_notified_of_their_own() {
    let session = Session::new();
    let meet = Arc::new(Barrier::new(2));
    let work = || {
        let meet = Arc::clone(&meet);
        move || {
            for _ in 0..50 {
                let body = |size| {
                    // Both tasks run an attempt here.
                    meet.wait();
                    assert_eq!(depth(), 1);
                    if size > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
                };
                execute::with::<NoCache>().batch(2, body).unwrap();
            }
            thread_ends();
            lines()
        }
    };
    let threads = [work(), work()].map(thread::spawn).map(|thread| thread.join().unwrap());
    session.take();
    let one_call = 9;
    for received in threads {
        assert_eq!(received.len(), 50 * one_call, "{received:?}");
        for call in received.chunks(one_call) {
            let name = &call[0]["enter ".len().."enter a".len()];
            assert!(
                call.iter().all(|line| line == "asked" || line.contains(&format!(" {name}"))),
                "{call:?}"
            );
        }
    }
}
