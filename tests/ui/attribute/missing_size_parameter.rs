#[toma::batch(initial = 16)]
fn f() -> usize {
    16
}

fn main() {
    f();
}
