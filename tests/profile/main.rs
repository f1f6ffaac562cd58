//! `#[toma::profile]`: functions do the same with it, and what they tell is right.

mod sink;
mod text;
mod told;
mod twins;

#[test]
fn marked_functions_do_what_they_do_unmarked() {
    let count = twins::compare();
    assert!(count >= 60, "{count} cases");
    sink::listening(|| assert_eq!(twins::compare(), count));
}
