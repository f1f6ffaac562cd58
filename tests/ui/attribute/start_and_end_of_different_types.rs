#[toma::range]
fn f(start: usize, end: i64) {
    assert!(start < end as usize);
}

fn main() {
    f(0, 16);
}
