#[toma::batch(initial)]
fn f(size: usize) -> usize {
    size
}

fn main() {
    f();
}
