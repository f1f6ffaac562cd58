#[toma::chunked(initial = 16, polcy = toma::Halve)]
fn f(data: &[f32], start: usize, end: usize) {
    assert_eq!(data.len(), end - start);
}

fn main() {
    f(&[0.0]);
}
