struct Model {
    weights: Vec<f32>,
}

impl Model {
    #[toma::batch(initial = 16)]
    fn f(&mut self, size: usize) -> &mut [f32] {
        &mut self.weights[..size]
    }
}

fn main() {
    Model { weights: Vec::new() }.f();
}
