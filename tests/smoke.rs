//! The shortest use of every form.

use std::collections::TryReserveError;

use toma::{GlobalCache, NoCache, execute};

#[toma::batch(initial = 512)]
fn sum(batch_size: usize, limit: usize) -> Result<usize, TryReserveError> {
    if batch_size > limit {
        Vec::<u8>::new().try_reserve_exact(isize::MAX as usize)?;
    }
    Ok(batch_size)
}

#[toma::range(initial = 32, cache = GlobalCache)]
fn add(start: usize, end: usize, out: &mut [f32], a: &[f32]) {
    assert!(end - start <= 8, "CUDA out of memory. Tried to allocate 2.00 GiB");
    out[start..end].copy_from_slice(&a[start..end]);
}

#[toma::chunked(before_retry = data.fill(7))]
fn fill(data: &mut [u8], start: usize, end: usize, value: u8) {
    data.fill(value);
    assert!(end - start <= 8, "CUDA out of memory. Tried to allocate 2.00 GiB");
}

#[toma::batch(initial = 64, min = 4)]
async fn task(n: i64, limit: &i64) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
    if n > *limit {
        Err("CUDA out of memory. Tried to allocate 2.00 GiB")?;
    }
    Ok(n)
}

#[test]
fn forms() {
    assert_eq!(sum(100).unwrap(), 64);
    println!("{}", toma::report::last().unwrap());
    assert_eq!(sum(100).unwrap(), 64);
    println!("{}", toma::report::last().unwrap());
    let mut out = [0.0; 100];
    add(0, 100, &mut out, &[1.0; 100]);
    println!("{}", toma::report::last().unwrap());
    assert_eq!(out, [1.0; 100]);
    let mut data = [0; 100];
    fill(&mut data, 3);
    assert_eq!(data, [3; 100]);
    println!("{}", toma::report::last().unwrap());
    let rows: Vec<usize> = execute::with::<NoCache>().map(0..10, 4, |s, e| e - s);
    assert_eq!(rows, [4, 4, 2]);
    let rows = execute::map(0..10, 4, |s, e| -> Result<usize, std::io::Error> { Ok(e - s) }).unwrap();
    assert_eq!(rows, [4, 4, 2]);
    let mut f = Box::pin(task(&9));
    let w = std::task::Waker::noop();
    let mut cx = std::task::Context::from_waker(w);
    let r = loop {
        if let std::task::Poll::Ready(r) = f.as_mut().poll(&mut cx) {
            break r;
        }
    };
    assert_eq!(r.unwrap(), 8);
    println!("{}", toma::report::last().unwrap());
}
