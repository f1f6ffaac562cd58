#[toma::batch(initial = 16 min = 2)]
fn f(size: usize) -> usize {
    size
}

fn main() {
    f();
}
