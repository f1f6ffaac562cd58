#![deny(deprecated)]

#[deprecated = "use g"]
#[toma::range(initial = 16)]
fn f(start: usize, end: usize) {
    assert!(start < end);
}

fn main() {
    f(0, 16);
}
