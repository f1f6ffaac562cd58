#[toma::chunked(initial = 16)]
async fn f(data: &Vec<f32>, start: usize, end: usize) {
    assert_eq!(data.len(), end - start);
}

fn main() {
    drop(f(&vec![0.0]));
}
