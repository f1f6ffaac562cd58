fn main() {
    toma::execute::range(0..16, 4, |start, end| end - start);
}
