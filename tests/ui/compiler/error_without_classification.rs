struct Code(i32);

#[toma::batch(initial = 16)]
fn f(size: usize) -> Result<usize, Code> {
    if size > 8 { Err(Code(2)) } else { Ok(size) }
}

fn main() {
    let _ = f();
}
