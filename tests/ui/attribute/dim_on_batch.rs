#[toma::batch(initial = 16, dim = 1)]
fn f(size: usize) -> usize {
    size
}

fn main() {
    f();
}
