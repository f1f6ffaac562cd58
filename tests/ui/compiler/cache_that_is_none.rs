struct Cache;

#[toma::batch(initial = 16, cache = Cache)]
fn f(size: usize) -> usize {
    size
}

fn main() {
    f();
}
