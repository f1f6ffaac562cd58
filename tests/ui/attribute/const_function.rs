#[toma::batch(initial = 16)]
const fn f(size: usize) -> usize {
    size
}

fn main() {
    f();
}
