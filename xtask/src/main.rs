//! Set-up and checks of toma.

fn main() {}
