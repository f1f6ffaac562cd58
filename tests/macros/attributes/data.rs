//! Types of data that can be processed chunk by chunk.

use toma::NoCache;
use toma::classify::OutOfMemory;

use crate::attributes::{allocate_or_panic, fits};

type Three<'a> = (&'a [f32], &'a [f32], &'a mut [f32]);

#[toma::chunked(initial = 16, cache = NoCache)]
fn alias((a, b, sum): Three<'_>, start: usize, end: usize) -> Result<(), OutOfMemory> {
    fits(end - start, 8)?;
    for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
        *sum = a + b;
    }
    Ok(())
}

#[toma::chunked(initial = 16, cache = NoCache)]
fn nested(data: (&[u8], (&mut [u8], &[u8])), _start: usize, _end: usize) {
    allocate_or_panic(data.0.len(), 8);
    data.1.0.copy_from_slice(data.0);
    assert_eq!(data.1.1.len(), data.0.len());
}

#[test]
fn every_item_once_and_in_order() {
    let mut sum = [0.0; 20];
    alias((&[1.0; 20], &[2.0; 20], &mut sum)).unwrap();
    assert!(sum.iter().all(|sum| (sum - 3.0).abs() < 1e-6));

    let mut to = [0; 20];
    nested((&[5; 20], (&mut to, &[0; 20])));
    assert_eq!(to, [5; 20]);
}
