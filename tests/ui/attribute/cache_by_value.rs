#[toma::batch(initial = 16, cache = toma::GlobalCache::new())]
fn f(size: usize) -> usize {
    size
}

fn main() {
    f();
}
