#[toma::profile]
fn step(x: u32) -> u32 {
    let sum = x + 1;
    let next = |y: u32| match y {
        0 => sum,
        _ => "one",
    };
    next(x)
}

fn main() {
    step(1);
}
