#[toma::batch(initial = 16)]
struct Model {
    size: usize,
}

fn main() {
    Model { size: 16 }.size;
}
