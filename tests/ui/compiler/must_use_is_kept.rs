#![deny(unused_must_use)]

#[toma::batch(initial = 16)]
#[must_use]
fn f(size: usize) -> usize {
    size
}

fn main() {
    f();
}
