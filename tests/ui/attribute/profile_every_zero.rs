#[toma::profile(every = 0)]
fn step(x: u32) -> u32 {
    x + 1
}

fn main() {
    step(1);
}
