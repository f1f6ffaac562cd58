#[toma::batch(initial = 16)]
fn f(size: usize, mut names: Vec<String>) -> Vec<String> {
    names.truncate(size);
    names
}

fn main() {
    f(Vec::new());
}
