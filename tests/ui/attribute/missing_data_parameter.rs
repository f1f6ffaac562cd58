#[toma::chunked]
fn f(start: usize, end: usize) {
    assert!(start < end);
}

fn main() {}
