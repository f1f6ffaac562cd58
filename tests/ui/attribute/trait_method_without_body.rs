trait Model {
    #[toma::batch(initial = 16)]
    fn f(&self, size: usize) -> usize;
}

impl Model for () {
    fn f(&self) -> usize {
        16
    }
}

fn main() {
    ().f();
}
