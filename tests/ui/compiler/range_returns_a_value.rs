#[toma::range(initial = 16)]
fn f(start: usize, end: usize) -> usize {
    end - start
}

fn main() {
    f(0, 16);
}
