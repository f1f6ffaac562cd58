//! Tests the output of the example.

use clap::{CommandFactory as _, Parser as _};

use crate::Arguments;
use crate::learning::Ran;

#[test]
fn the_description_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn the_last_budget_is_for_all_others() {
    let arguments = Arguments::try_parse_from(["ranks", "--budgets", "64MB,48MB"]).unwrap();
    assert_eq!([0, 1, 2, 9].map(|rank| arguments.budget(rank).as_u64() / 1_000_000), [64, 48, 48, 48]);
}

#[test]
fn sent_messages_are_read() {
    let ran = Ran { attempts: 7, out_of_memory: 2, elsewhere: 1, size: 64 };
    assert_eq!(Ran::read(&ran.to_string()), Some(ran));
    assert_eq!(Ran::read("7 2 x 1"), None);
}
