//! The future is `Send` if the future of the body is.

use std::cell::Cell;
use std::error::Error;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use toma::classify::{Class, OutOfMemory};
use toma::memory::Host;
use toma::observe::Event;
use toma::{Decay, GlobalCache, NoCache};

use crate::asynchronous::{allocate, block_on, pause};

/// Does not compile for a future that is not `Send`.
fn send<F: Future + Send>(future: F) -> F {
    future
}

#[toma::batch(initial = 16, cache = NoCache)]
async fn batch<T: Sync + ?Sized>(size: usize, text: String, shared: &T) -> Result<String, OutOfMemory> {
    let held = (&text, shared);
    allocate(size, 8).await?;
    Ok(held.0.clone())
}

#[toma::range(initial = 16, cache = NoCache)]
async fn range<T: Send>(start: i64, end: i64, out: &mut [T], mut value: impl FnMut(i64) -> T + Send) {
    for (i, out) in (start..end).zip(&mut out[usize::try_from(start).unwrap()..]) {
        *out = value(i);
        pause().await;
    }
}

#[toma::chunked(initial = 16, cache = NoCache)]
async fn chunked(
    (from, to): (&[usize], &mut [usize]),
    _start: usize,
    end: usize,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    allocate(from.len(), 8).await?;
    to.copy_from_slice(from);
    pause().await;
    assert_eq!(to.last(), Some(&(end - 1)));
    Ok(())
}

struct Sized8;

impl Sized8 {
    #[toma::batch(
        initial = 16,
        cache = &*cache,
        min = 1,
        max = 32,
        multiple_of = 1,
        max_attempts = 5,
        deadline = Duration::from_secs(3600),
        key = "key",
        name = "name",
        device = Host::shared(),
        observer = |_: &Event<'_>| (),
        policy = Decay::new(0.5),
        before_retry = *retries += 1,
        classify = |_: &NotAnError| Class::OutOfMemory,
    )]
    async fn with_every_option(
        &mut self,
        size: i64,
        cache: &GlobalCache,
        retries: &mut usize,
    ) -> Result<i64, NotAnError> {
        pause().await;
        if size > 8 { Err(NotAnError) } else { Ok(size) }
    }
}

struct NotAnError;

/// The output is not `Send`, but the future may move between threads.
#[toma::batch(initial = 16, cache = NoCache, before_retry = { pause().await; *retries += 1 })]
async fn gives_a_pointer(size: usize, retries: &mut usize) -> Result<Rc<usize>, OutOfMemory> {
    allocate(size, 8).await?;
    Ok(Rc::new(size))
}

#[test]
fn futures_are_send_when_the_body_is() {
    assert_eq!(block_on(send(batch(String::from("text"), "str"))), Ok(String::from("text")));
    let mut out = [0; 20];
    block_on(send(range(0, 20, &mut out, |i| i * 2)));
    assert_eq!(out[19], 38);
    let (from, mut to) = ((0..20).collect::<Vec<_>>(), [0; 20]);
    block_on(send(chunked((&from, &mut to)))).unwrap();
    assert_eq!(from, to);
    let (cache, mut retries) = (GlobalCache::new(), 0);
    let size = block_on(send(Sized8.with_every_option(&cache, &mut retries)));
    assert_eq!((size.ok(), retries), (Some(8), 1));
    assert_eq!(block_on(send(gives_a_pointer(&mut retries))), Ok(Rc::new(8)));
    assert_eq!(retries, 2);
}

#[toma::batch(initial = 16, cache = NoCache)]
async fn not_send(size: usize, runs: &Cell<usize>) -> Result<Rc<usize>, OutOfMemory> {
    let (held, _pointer) = (Rc::new(size), PhantomData::<*const ()>);
    runs.set(runs.get() + 1);
    allocate(size, 8).await?;
    Ok(held)
}

#[test]
fn bodies_need_not_be_send() {
    let runs = Cell::new(0);
    assert_eq!(block_on(not_send(&runs)), Ok(Rc::new(8)));
    assert_eq!(runs.get(), 2);
}
