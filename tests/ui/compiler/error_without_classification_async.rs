#[toma::chunked(initial = 16)]
async fn f(data: &[f32], start: usize, end: usize) -> Result<(), &'static str> {
    if end - start > 8 { Err("no memory") } else { Ok(drop(data)) }
}

fn main() {
    drop(f(&[0.0]));
}
