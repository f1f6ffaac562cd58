fn main() {
    toma::execute::chunked(vec![0.0; 16], 4, |_chunk, _start, _end| ());
}
