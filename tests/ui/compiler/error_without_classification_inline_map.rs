fn embed(start: usize, end: usize) -> Result<usize, String> {
    Ok(end - start)
}

fn main() {
    let _ = toma::execute::map(0..16, 4, embed);
}
