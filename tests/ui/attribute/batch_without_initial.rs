#[toma::batch(min = 2)]
fn f(size: usize) -> usize {
    size
}

fn main() {
    f();
}
