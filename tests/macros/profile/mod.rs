//! `#[toma::profile]`: functions behave the same with it, and their marks are right.

mod bodies;
mod received;
mod sink;
mod text;

#[test]
fn marked_bodies_do_what_they_do_unmarked() {
    let count = bodies::compare();
    assert!(count >= 42, "{count} bodies");
    sink::listening(|| assert_eq!(bodies::compare(), count));
}
