#[toma::batch(initial = 16, before_retry = println!("again"))]
fn f(size: usize, names: Vec<String>) -> usize {
    drop(names);
    size
}

fn main() {
    f(Vec::new());
}
