fn main() {
    toma::execute::chunked(&[0.0; 16][..], 4, |chunk, _start, _end| chunk.len());
}
