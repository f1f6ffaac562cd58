#[toma::batch(512)]
fn f(size: usize) -> usize {
    size
}

fn main() {
    f();
}
