//! Generics, const generics, lifetimes, `where`, and `impl Trait`.

use std::fmt::Display;

use toma::NoCache;
use toma::classify::OutOfMemory;

use crate::attributes::{allocate_or_panic, fits, show};

#[toma::batch(initial = 16, cache = NoCache)]
fn generic<T: Clone, E: From<OutOfMemory> + std::error::Error + 'static>(
    size: usize,
    value: &T,
) -> Result<Vec<T>, E> {
    fits(size, 4)?;
    Ok(vec![value.clone(); size])
}

#[toma::batch(initial = N, cache = NoCache)]
fn constant<const N: usize, const LIMIT: usize>(size: usize) -> Result<[usize; N], OutOfMemory> {
    fits(size, LIMIT)?;
    Ok([size; N])
}

#[toma::batch(initial = 16, cache = NoCache)]
fn bounded<T, F>(size: usize, make: F) -> Option<T>
where
    F: for<'a> Fn(&'a usize) -> T,
    T: PartialOrd<usize>,
{
    allocate_or_panic(size, 4);
    Some(make(&size)).filter(|value| *value > 3)
}

#[test]
fn generics() {
    assert_eq!(generic::<_, OutOfMemory>(&"x"), Ok(vec!["x"; 4]));
    assert_eq!(generic::<_, OutOfMemory>(&1.5), Ok(vec![1.5; 4]));
    assert_eq!(constant::<8, 2>(), Ok([2; 8]));
    assert_eq!(bounded(|size| *size), Some(4));
    assert_eq!(bounded(|size| size / 2), None);
}

#[toma::batch(initial = 16, cache = NoCache)]
fn elided(size: usize, data: &[u8]) -> Result<&[u8], OutOfMemory> {
    fits(size, 4)?;
    Ok(&data[..size])
}

#[toma::batch(initial = 16, cache = NoCache)]
fn named<'long, 'short>(size: usize, data: &'long str, _other: &'short str) -> &'long str {
    allocate_or_panic(size, 4);
    &data[..size]
}

#[toma::batch(initial = 16, cache = NoCache)]
fn outlives<'long: 'short, 'short>(size: usize, long: &'long str, short: &'short str) -> [&'short str; 2] {
    allocate_or_panic(size, 4);
    [&long[..size], short]
}

#[toma::batch(initial = 16, cache = NoCache)]
fn unnamed(size: usize, data: std::slice::Iter<'_, u8>) -> std::iter::Take<std::slice::Iter<'_, u8>> {
    allocate_or_panic(size, 4);
    data.clone().take(size)
}

#[test]
fn lifetimes() {
    let text = String::from("long text");
    assert_eq!(elided(text.as_bytes()), Ok(&b"long"[..]));
    let long = {
        let other = String::from("other");
        named(&text, &other)
    };
    assert_eq!(long, "long");
    assert_eq!(outlives("static", &text), ["stat", "long text"]);
    assert!(unnamed(b"long text".iter()).eq(b"long"));
}

#[toma::batch(initial = 16, cache = NoCache)]
fn takes_impl(size: usize, mut items: impl Iterator<Item = usize> + Clone, shown: &impl Display) -> String {
    let item = items.nth(size);
    allocate_or_panic(size, 4);
    format!("{}{item:?}", show(shown))
}

#[toma::batch(initial = 16, cache = NoCache)]
fn takes_dyn(size: usize, make: &dyn Fn(usize) -> usize, shown: Box<dyn Display + '_>) -> String {
    allocate_or_panic(size, 4);
    format!("{}{}", show(&*shown), make(size))
}

#[toma::batch(initial = 16, cache = NoCache)]
fn returns_impl(size: usize) -> impl Iterator<Item = usize> + Clone {
    allocate_or_panic(size, 4);
    0..size
}

#[toma::batch(initial = 16, cache = NoCache)]
fn captures(size: usize, data: &[u8]) -> impl Iterator<Item = &u8> + use<'_> {
    allocate_or_panic(size, 4);
    data.iter().take(size)
}

#[test]
fn impl_trait() {
    assert_eq!(takes_impl(0..100, &'x'), "xSome(30)", "the failed attempts took 17 and 9 items");
    assert_eq!(takes_dyn(&|size| size + 1, Box::new("five: ")), "five: 5");
    assert!(returns_impl().eq(0..4));
    assert_eq!(captures(b"long text").count(), 4);
}

#[toma::range(initial = 16, cache = NoCache)]
fn generic_range<'a, T: Copy>(start: i64, end: i64, from: &'a [T], to: &mut Vec<&'a T>) {
    let (start, end) = (usize::try_from(start).unwrap(), usize::try_from(end).unwrap());
    allocate_or_panic(end - start, 4);
    to.extend(&from[start..end]);
}

#[toma::chunked(initial = 16, cache = NoCache)]
fn generic_chunked<'a, T: Copy + Into<f64>>(
    data: &'a [T],
    start: usize,
    end: usize,
    sum: &mut f64,
) -> Result<(), OutOfMemory> {
    fits(end - start, 4)?;
    *sum += data.iter().map(|&value| value.into()).sum::<f64>();
    Ok(())
}

#[test]
fn pieces_of_generics() {
    let (from, mut to) = (['a'; 10], Vec::new());
    generic_range(2, 10, &from, &mut to);
    assert_eq!(to, vec![&'a'; 8]);
    let mut sum = 0.0;
    generic_chunked(&[1.5_f32; 10], &mut sum).unwrap();
    generic_chunked(&[1_u8; 10], &mut sum).unwrap();
    assert!((sum - 25.0).abs() < 1e-9);
}

#[toma::batch(initial = 16, cache = NoCache)]
fn nested_impl(size: usize) -> Result<impl Display, OutOfMemory> {
    fits(size, 4)?;
    Ok(size)
}

#[test]
fn impl_trait_in_a_result() {
    assert_eq!(nested_impl().unwrap().to_string(), "4");
}
