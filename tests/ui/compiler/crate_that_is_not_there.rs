#[toma::chunked(initial = 16, crate = renamed)]
fn f(data: &[f32], start: usize, end: usize) -> Result<(), std::io::Error> {
    assert_eq!(data.len(), end - start);
    Ok(())
}

fn main() {
    let _ = f(&[0.0]);
}
