#[toma::range(before_retry = |failed| out.truncate(failed.start))]
fn f(start: usize, end: usize, out: &mut Vec<usize>) {
    out.extend(start..end);
}

fn main() {
    f(0, 16, &mut Vec::new());
}
