//! Methods, generics, references and early returns work in asynchronous functions as in synchronous ones.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::pin::Pin;

use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache};

use crate::asynchronous::{OUT_OF_MEMORY, allocate, block_on, failures, pause};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Model {
    limit: usize,
    runs: usize,
}

const MODEL: Model = Model { limit: 8, runs: 0 };

impl Model {
    #[toma::batch(initial = 16, cache = NoCache)]
    async fn shared(&self, size: usize) -> Result<&usize, OutOfMemory> {
        allocate(size, self.limit).await?;
        Ok(&self.limit)
    }

    #[toma::batch(initial = 32, cache = NoCache)]
    async fn exclusive(&mut self, size: i64, step: usize) -> Result<i64, OutOfMemory> {
        self.runs += step;
        allocate(usize::try_from(size).unwrap(), self.limit).await?;
        Ok(size)
    }

    #[toma::batch(initial = 16, cache = NoCache)]
    async fn by_value(mut self, size: usize) -> Result<Self, OutOfMemory> {
        self.runs += 1;
        allocate(size, self.limit).await?;
        Ok(self)
    }

    #[toma::range(initial = 16, cache = NoCache)]
    async fn sum(&mut self, start: usize, end: usize, values: &[usize]) -> Result<(), OutOfMemory> {
        allocate(end - start, self.limit).await?;
        self.runs += values[start..end].iter().sum::<usize>();
        Ok(())
    }

    #[toma::chunked(initial = 16, cache = NoCache)]
    async fn scale(&self, data: &mut [usize], _start: usize, _end: usize, factor: usize) -> io::Result<()> {
        allocate(data.len(), self.limit).await.map_err(io::Error::other)?;
        for value in data {
            *value *= factor;
        }
        Ok(())
    }
}

#[test]
fn methods() {
    let mut model = MODEL;
    assert_eq!(block_on(model.shared()), Ok(&8));
    assert_eq!(block_on(model.exclusive(5)), Ok(8));
    assert_eq!(block_on(model.by_value()), Ok(Model { limit: 8, runs: 17 }));
    block_on(model.sum(0, 10, &[1; 10])).unwrap();
    assert_eq!((model.runs, failures()), (25, 1));
    let mut data = [1; 100];
    block_on(model.scale(&mut data, 3)).unwrap();
    assert_eq!((data, failures()), ([3; 100], 1));
}

trait Infer {
    async fn infer(&mut self, input: &str) -> Result<String, Box<dyn Error>>;

    #[toma::batch(initial = 16, cache = NoCache)]
    async fn provided(&self, size: usize) -> Result<usize, OutOfMemory> {
        allocate(size, 2).await?;
        Ok(size)
    }
}

impl Infer for Model {
    #[toma::batch(initial = 16, cache = NoCache)]
    async fn infer(&mut self, size: usize, input: &str) -> Result<String, Box<dyn Error>> {
        self.runs += 1;
        allocate(size, self.limit).await?;
        if input.is_empty() {
            Err("nothing to infer from")?;
        }
        Ok(format!("{input}{size}"))
    }
}

#[test]
fn methods_of_traits() {
    let mut model = MODEL;
    assert_eq!(block_on(model.infer("n")).unwrap(), "n8");
    assert_eq!(block_on(model.infer("")).unwrap_err().to_string(), "nothing to infer from");
    assert_eq!((model.runs, failures()), (4, 1));
    assert_eq!(block_on(model.provided()), Ok(2));
}

#[toma::batch(initial = N, cache = NoCache)]
async fn generic<'a, T: Clone, const N: usize>(
    size: usize,
    value: &'a T,
    _other: &str,
) -> Option<(&'a T, [T; N])> {
    pause().await;
    assert!(size <= 4, "{OUT_OF_MEMORY}");
    let array = std::array::from_fn(|_| value.clone());
    if N == 5 {
        return None;
    }
    Some((value, array))
}

#[toma::batch(initial = 16, cache = NoCache)]
async fn takes_impl(size: usize, items: impl Iterator<Item = usize> + Clone, shown: &dyn Display) -> String
where
    usize: Display,
{
    allocate(size, 4).await.unwrap();
    format!("{shown}{:?}", items.clone().nth(size))
}

#[toma::batch(initial = 16, cache = NoCache)]
async fn elided(size: usize, data: &mut [u8]) -> usize {
    data[..size].fill(1);
    pause().await;
    assert!(size <= 4, "{OUT_OF_MEMORY}");
    data.len() - size
}

#[toma::batch(initial = 16, cache = NoCache)]
async fn returns_impl(size: usize) -> impl Iterator<Item = usize> {
    pause().await;
    assert!(size <= 4, "{OUT_OF_MEMORY}");
    0..size
}

#[test]
fn generics_and_references() {
    let text = String::from("text");
    assert_eq!(block_on(generic::<_, 8>(&text, "")).unwrap().1[7], "text");
    assert_eq!(block_on(generic::<_, 5>(&text, "")), None);
    assert_eq!(block_on(takes_impl(0..100, &"x")), "xSome(4)");
    assert_eq!(block_on(elided(&mut [0; 20])), 16);
    assert!(block_on(returns_impl()).eq(0..4));
}

#[toma::range(initial = 16, cache = NoCache)]
async fn patterns(mut start: i64, _: i64, (first, out): (&str, &mut Vec<String>), &add: &i64) {
    start += add;
    pause().await;
    if start == 100 {
        return;
    }
    out.push(format!("{first}{start}"));
}

#[toma::chunked(initial = 16, cache = NoCache, before_retry = to.fill(0))]
async fn pairs((from, to): (&[u8], &mut [u8]), start: usize, _end: usize) -> Result<(), OutOfMemory> {
    assert!(to.iter().all(|&value| value == 0), "undone at {start}");
    to.copy_from_slice(from);
    allocate(from.len(), 4).await
}

#[test]
fn patterns_of_parameters() {
    let mut out = Vec::new();
    block_on(patterns(0, 40, ("n", &mut out), &100));
    assert_eq!(out, ["n116", "n132"]);
    let mut to = [0; 20];
    block_on(pairs((&[7; 20], &mut to))).unwrap();
    assert_eq!((to, failures()), ([7; 20], 2));
}

#[toma::range(initial = 16, cache = NoCache, before_retry = out.truncate(start))]
async fn counts_up(mut start: usize, end: usize, out: &mut Vec<usize>) -> Result<(), OutOfMemory> {
    let items = end - start;
    while start < end {
        out.push(start);
        start += 1;
    }
    allocate(items, 4).await
}

#[toma::chunked(initial = 16, cache = NoCache, before_retry = out.truncate(out.len() - data.len()))]
async fn shortens(mut data: &[u8], _: usize, _: usize, out: &mut Vec<u8>) -> Result<(), OutOfMemory> {
    let items = data.len();
    while let Some((first, rest)) = data.split_first() {
        out.push(*first);
        data = rest;
    }
    allocate(items, 4).await
}

/// The body changes its own variables. Undoing sees them as they were.
#[test]
fn undoing_sees_the_values_of_the_failed_piece() {
    let mut out = Vec::new();
    block_on(counts_up(0, 20, &mut out)).unwrap();
    assert_eq!((out, failures()), ((0..20).collect(), 2));
    let (data, mut out) = ([1_u8, 2, 3, 4, 5], Vec::new());
    block_on(shortens(&data, &mut out)).unwrap();
    assert_eq!((&*out, failures()), (&data[..], 1));
}

#[toma::batch(initial = 16, cache = GlobalCache)]
async fn keyed(size: usize, limit: usize) -> Result<usize, OutOfMemory> {
    allocate(size, limit).await?;
    Ok(size)
}

#[toma::range(initial = 8, cache = NoCache)]
async fn outer(start: usize, end: usize, inner: &mut Vec<usize>) -> Result<(), OutOfMemory> {
    inner.push(keyed(4).await?);
    allocate(end - start, 2).await
}

#[toma::batch(initial = 16, cache = NoCache)]
async fn calls_itself(size: usize, depth: usize) -> Result<usize, OutOfMemory> {
    allocate(size, 8).await?;
    if depth == 0 {
        return Ok(0);
    }
    let deeper: Pin<Box<dyn Future<Output = Result<usize, OutOfMemory>>>> = Box::pin(calls_itself(depth - 1));
    Ok(size + deeper.await?)
}

#[test]
fn one_in_the_other() {
    let mut inner = Vec::new();
    block_on(outer(0, 8, &mut inner)).unwrap();
    assert_eq!((inner, failures()), (vec![4; 6], 2));
    assert_eq!(block_on(keyed(16)), Ok(4), "an async function has one entry, whatever calls it");
    assert_eq!(block_on(calls_itself(3)), Ok(24));
}
