struct Code(i32);

fn main() {
    let _ = toma::execute::batch(16, |size| if size > 8 { Err(Code(2)) } else { Ok(size) });
}
