#[toma::batch(initial = 16)]
fn f(size: u32) -> u32 {
    size
}

fn main() {
    f();
}
