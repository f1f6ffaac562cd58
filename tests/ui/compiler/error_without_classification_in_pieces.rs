#[toma::range(initial = 16)]
fn f(start: usize, end: usize) -> Result<(), String> {
    if end - start > 8 { Err(String::from("no memory")) } else { Ok(()) }
}

fn main() {
    let _ = f(0, 16);
}
