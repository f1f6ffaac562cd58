#[toma::range]
fn f(start: usize, out: &mut [f32]) {
    out[start] = 1.0;
}

fn main() {
    f(0, &mut [0.0]);
}
