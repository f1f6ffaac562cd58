//! The table: runs checks one after the other, and prints a row for each.

use std::cell::{Cell, RefCell};
use std::panic;
use std::process::ExitCode;

use toma::cuda;

use crate::card;

thread_local! {
    /// Counts panics of this thread that would have been printed, and holds the message of the last one.
    static PRINTED: Cell<usize> = const { Cell::new(0) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The variable that names a library which stands in for the driver.
const DOUBLE: &str = "CUDA_DOUBLE";

/// Checks that need the values of kernels. On a paper card the others are about memory, and run without values, which
/// takes a third of the time, unless `TOMA_VALUES` is `all`.
const OF_VALUES: &[&str] = &[
    "libtorch: out of memory in backward, as an error",
    "libtorch: out of memory in backward, as a panic",
    "libtorch: a retry draws the same random numbers",
    "checkpoint: a stack of GPT blocks has them",
    "checkpoint: recurrent layers with dropout have them",
    "card: an operator that the CPU lacks is named",
    "card: without values, checks of values fail",
    "retry: a failure at any allocation from the driver",
    "retry: under settings of the allocator",
    "retry: beside a card that is full",
    "offload: steps in 60 % of their peak have the plain bits",
    "offload: everything is parked, and comes back",
];

/// One row: a check panics when it fails, and otherwise returns a figure.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) run: fn() -> String,
}

/// A check on a device that libtorch sees.
pub(crate) const fn on_gpu(name: &'static str, run: fn() -> String) -> Check {
    Check { name, needs: Needs::Libtorch, run }
}

/// Requirement without which a check is skipped.
#[derive(Clone, Copy)]
pub(crate) enum Needs {
    /// A device that the driver sees, or its double.
    Driver,
    /// A device that the real driver sees.
    Gpu,
    /// A device that libtorch sees.
    Libtorch,
    /// A device that libtorch sees, with cuDNN.
    Cudnn,
    /// A paper card, see the folder `card`.
    Card,
}

impl Needs {
    /// Returns why a check is skipped.
    fn missing(self) -> Option<&'static str> {
        let is_double = std::env::var_os(DOUBLE).is_some();
        let has_device = || cuda::Device::new(0).is_ok();
        match self {
            Self::Gpu if is_double && has_device() => Some("skipped: a test double"),
            Self::Driver | Self::Gpu if has_device() => None,
            Self::Cudnn if card::is_there() => Some("skipped: no cuDNN there"),
            Self::Libtorch | Self::Cudnn if tch::Cuda::device_count() > 0 => None,
            Self::Card if card::is_there() => None,
            Self::Card => Some("skipped: no paper card"),
            _ => Some("skipped: no CUDA device"),
        }
    }
}

/// Runs the checks with one of `words` in their names, or all if there are none.
pub(crate) fn run(checks: &[Check], words: &[String]) -> ExitCode {
    count_panics();
    let is_asked_for =
        |check: &&Check| words.is_empty() || words.iter().any(|word| check.name.contains(&**word));
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let has_all = std::env::var("TOMA_VALUES").is_ok_and(|values| values == "all");
    row("check", "result", "figure");
    for check in checks.iter().filter(is_asked_for) {
        if let Some(why) = check.needs.missing() {
            skipped += 1;
            row(check.name, why, "");
            continue;
        }
        if card::is_there() {
            card::set_values(has_all || OF_VALUES.contains(&check.name));
        }
        if let Ok(figure) = panic::catch_unwind(check.run) {
            passed += 1;
            row(check.name, "ok", &figure);
        } else {
            failed += 1;
            row(check.name, "FAILED", &MESSAGE.take());
        }
    }
    println!("{passed} ok, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn row(name: &str, result: &str, figure: &str) {
    // Prints one line, even if the message of a library has several.
    let figure = figure.split_whitespace().collect::<Vec<_>>().join(" ");
    println!("{name:<62} | {result:<23} | {}", figure.chars().take(300).collect::<String>());
}

/// Replaces the hook that prints panics, before toma installs its own hook around it.
fn count_panics() {
    panic::set_hook(Box::new(|info| {
        PRINTED.set(PRINTED.get() + 1);
        MESSAGE.replace(info.to_string());
    }));
}

/// Returns how many panics of this thread would have been printed while `work` ran.
pub(crate) fn printed_by(work: impl FnOnce()) -> usize {
    let before = PRINTED.get();
    work();
    PRINTED.get() - before
}
