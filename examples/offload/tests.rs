//! Tests the output of the example.

use bytesize::ByteSize;
use clap::{CommandFactory as _, Parser as _};
use toma::torch::cpu;

use crate::learning::run;
use crate::program::first_line;
use crate::{Arguments, Share};

/// The output, or the error in one line.
fn printed(line: &str) -> Result<String, String> {
    cpu::count();
    let arguments = Arguments::try_parse_from(format!("offload {line}").split_whitespace());
    let mut to = Vec::new();
    run(&arguments.map_err(|error| first_line(&error))?, &mut to).map_err(|error| first_line(&error))?;
    String::from_utf8(to).map_err(|error| error.to_string())
}

#[test]
fn the_description_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn budgets_are_bytes_or_shares() {
    let read = |text: &str| text.parse::<Share>();
    assert_eq!(read("40%").map(|share| share.of(200)), Ok(80));
    assert_eq!(read("20MiB"), Ok(Share::Bytes(ByteSize::mib(20))));
    for wrong in ["0%", "101%", "-1%", "%", "much"] {
        assert!(read(wrong).is_err(), "{wrong}: {:?}", read(wrong));
    }
}

/// One test, because budgets belong to the process.
#[test]
fn each_eviction_learns_the_same_and_a_budget_that_is_too_small_is_reported() {
    for net in ["residual", "perceptron"] {
        let text = printed(&format!("--net {net} --batch 100 --steps 4 --budget 60% --budget 35%")).unwrap();
        for name in ["genoa", "lru", "next-event", "flow"] {
            let rows: Vec<_> = text.lines().filter(|line| line.starts_with(name)).collect();
            assert_eq!(rows.len(), 2, "{name}:\n{text}");
            assert!(rows.iter().all(|row| !row.contains(" 0 B ")), "something moved:\n{text}");
        }
        assert!(text.ends_with("\nlosses equal\n"), "{text}");
    }
    for budget in ["1.0 MiB", "9.0 MiB"] {
        let bytes = budget.replace(' ', "");
        let line = format!("--net perceptron --batch 50 --steps 1 --budget {bytes} --policy lru");
        let error = printed(&line).unwrap_err();
        assert!(
            error.starts_with(&format!("lru in {budget}: ")) && error.contains("out of memory"),
            "{error}"
        );
    }
}
