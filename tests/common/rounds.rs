//! The number of rounds of a test that repeats one property.

/// Returns `day`, or `night` if `TOMA_ROUNDS=night` is set, as `cargo xtask nightly rounds` does. Prints the number.
pub(crate) fn rounds<N: std::fmt::Display>(day: N, night: N) -> N {
    let rounds = match std::env::var("TOMA_ROUNDS").as_deref() {
        Ok("night") => night,
        Ok(other) => panic!("TOMA_ROUNDS={other}: must be `night`"),
        Err(_) => day,
    };
    let thread = std::thread::current();
    println!("{}: {rounds} rounds", thread.name().unwrap_or("a test"));
    rounds
}
