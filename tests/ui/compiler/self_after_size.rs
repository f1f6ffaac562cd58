struct Model;

impl Model {
    #[toma::batch(initial = 16)]
    fn f(size: usize, &self) -> usize {
        size
    }
}

fn main() {
    let _ = Model;
}
