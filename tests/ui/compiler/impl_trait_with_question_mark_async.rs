use std::fmt::Debug;

#[toma::batch(initial = 16)]
async fn f(size: usize, text: &str) -> impl Debug {
    let number: usize = text.parse()?;
    Ok(size + number)
}

fn main() {
    drop(f("1"));
}
