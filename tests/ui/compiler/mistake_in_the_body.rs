#[toma::batch(initial = 16)]
fn f(size: usize) -> usize {
    let text: &str = size;
    text.len()
}

fn main() {
    f();
}
