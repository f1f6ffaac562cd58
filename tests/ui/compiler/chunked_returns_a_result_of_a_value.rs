use std::io;

#[toma::chunked(initial = 16)]
fn f(data: &[f32], start: usize, end: usize) -> io::Result<usize> {
    assert_eq!(data.len(), end - start);
    Ok(end)
}

fn main() {
    let _ = f(&[0.0]);
}
