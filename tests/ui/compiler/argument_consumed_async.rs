#[toma::batch(initial = 16)]
async fn f(size: usize, names: Vec<String>) -> usize {
    drop(names);
    size
}

fn main() {
    drop(f(Vec::new()));
}
