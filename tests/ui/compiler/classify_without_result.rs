use toma::classify::Class;

#[toma::batch(initial = 16, classify = |_: &String| Class::OutOfMemory)]
fn f(size: usize) -> Option<usize> {
    Some(size)
}

fn main() {
    f();
}
