//! The steps of `cargo xtask test`, cheap ones first.

mod fixtures;
mod lints;
mod msrv;
mod programs;
mod suites;
mod torch;

use anyhow::Result;

use crate::layout;
use crate::test::Checks;

/// One check with a name.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// What it checks, in one line.
    pub(crate) checks: &'static str,
    /// Gives a short note for the table, or what is wrong.
    pub(crate) run: fn(&Checks<'_>) -> Result<String>,
}

/// Every step, in the order in which they run.
///
/// `clippy`, `msrv` and `doc` share the checked dependencies, `test` and `doc-tests` the debug build, and
/// all after them the release build. Those that need libtorch come last: without it the others have
/// been run.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "fmt", checks: "sources are formatted", run: lints::fmt },
    Step { name: "layout", checks: "file sizes, unsafe, lint reasons, paths, links", run: layout::step },
    Step { name: "clippy", checks: "lints, with each set of features", run: lints::clippy },
    Step { name: "msrv", checks: "nothing needs a newer Rust than we state", run: msrv::step },
    Step {
        name: "doc",
        checks: "documentation builds without warnings, also as docs.rs does",
        run: lints::doc,
    },
    Step { name: "test", checks: "unit and integration tests, with each set of features", run: suites::test },
    Step { name: "doc-tests", checks: "examples in the documentation, with all features", run: suites::doc },
    Step { name: "release", checks: "chosen tests in release mode, with all features", run: suites::release },
    Step { name: "bench-build", checks: "benchmarks build, and each runs once", run: programs::benches },
    Step { name: "examples", checks: "examples build, run and end well", run: programs::examples },
    Step {
        name: "profiles",
        checks: "fixture programs end well in each profile they list",
        run: fixtures::step,
    },
    Step {
        name: "libtorch",
        checks: "a libtorch for the steps below, installed if need be",
        run: torch::provide,
    },
    Step { name: "torch", checks: "tests, documentation and benchmarks with libtorch", run: torch::test },
    Step {
        name: "torch-examples",
        checks: "examples with libtorch: their tests, and each runs",
        run: torch::examples,
    },
    Step { name: "shim", checks: "the shim's own test under sanitizers", run: torch::shim },
];

/// How many there are, in words.
fn counted(count: usize, word: &str) -> String {
    match count {
        0 => format!("no {word}s"),
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_do_is_said() {
        assert_eq!(counted(0, "example"), "no examples");
        assert_eq!(counted(1, "example"), "1 example");
        assert_eq!(counted(2, "run"), "2 runs");
    }
}
