struct Model;

impl Model {
    #[toma::chunked]
    fn f(&self, start: usize, end: usize) {
        assert!(start < end);
    }
}

fn main() {
    Model.f();
}
