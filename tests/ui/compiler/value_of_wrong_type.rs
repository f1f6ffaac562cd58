#[toma::batch(initial = "16")]
fn f(size: usize) -> usize {
    size
}

fn main() {
    f();
}
