use std::io;
use toma::classify::Class;

fn class(_: &io::Error) -> Class {
    Class::Other
}

#[toma::batch(initial = 16, classify = class)]
fn f(size: usize) -> Result<usize, String> {
    Ok(size)
}

fn main() {
    let _ = f();
}
