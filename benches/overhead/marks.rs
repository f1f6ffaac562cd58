//! The cost of `#[toma::profile]` while nothing records the marks.

use std::hint::black_box;

use super::calls::Case;
use super::measure::pairs;

pub(crate) const CASES: &[Case] = &[
    Case { name: "1-statement/unmarked", run: |times| repeat(times, unmarked::statement) },
    Case { name: "1-statement/marked", run: |times| repeat(times, marked::statement) },
    Case { name: "50-statements/unmarked", run: |times| repeat(times, unmarked::statements) },
    Case { name: "50-statements/marked", run: |times| repeat(times, marked::statements) },
    Case { name: "50-blocks/unmarked", run: |times| repeat(times, unmarked::blocks) },
    Case { name: "50-blocks/marked", run: |times| repeat(times, marked::blocks) },
];

fn repeat(times: u32, function: fn()) {
    (0..times).for_each(|_| black_box(function)());
}

#[inline(never)]
fn work() {
    black_box(());
}

/// Defines functions with or without a mark, and with as many statements as there are names.
macro_rules! functions {
    ($mark:meta: $($work:ident)*) => {
        use super::work;

        #[$mark]
        #[inline(never)]
        pub(super) fn statement() {
            work()
        }

        #[$mark]
        #[inline(never)]
        pub(super) fn statements() {
            $($work();)*
        }

        #[$mark]
        #[inline(never)]
        pub(super) fn blocks() {
            $({ $work() })*
        }
    };
    ($module:ident, $mark:meta) => {
        mod $module {
            functions!($mark: work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work work);
        }
    };
}

functions!(marked, toma::profile);
functions!(unmarked, allow(unused));

/// The bars are instructions, which `cargo xtask bench --instructions` counts: 3 per mark, 5 per block.
pub(crate) fn report() {
    println!("marks without a receiver, over the unmarked function");
    for case in CASES.chunks_exact(2) {
        let pair = pairs(401, || (case[0].run)(1000), || (case[1].run)(1000));
        println!("  {:<28} {:>7.1} ns", case[1].name, pair.overhead_ns(1000));
    }
}
