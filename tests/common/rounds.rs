//! How often tests repeat what shows one property.

/// `checks` times, or `night` times where `TOMA_ROUNDS=night`, as `cargo xtask nightly rounds` sets it. Prints which.
pub(crate) fn rounds<N: std::fmt::Display>(checks: N, night: N) -> N {
    let rounds = match std::env::var("TOMA_ROUNDS").as_deref() {
        Ok("night") => night,
        Ok(other) => panic!("TOMA_ROUNDS={other}: must be `night`"),
        Err(_) => checks,
    };
    let thread = std::thread::current();
    println!("{}: {rounds} rounds", thread.name().unwrap_or("a test"));
    rounds
}
