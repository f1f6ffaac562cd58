#[toma::range(initial = 16)]
async fn f(start: usize, end: usize) -> usize {
    end - start
}

fn main() {
    drop(f(0, 16));
}
