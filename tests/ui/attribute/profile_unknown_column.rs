struct Net;

impl Net {
    #[toma::profile(columns = [Peak, Freeed])]
    fn step(&self) {}
}

fn main() {
    Net.step();
}
