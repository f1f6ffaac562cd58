//! Reports attempts of loops to the running recording.

use std::cell::RefCell;

use toma_core::observe::witness::{self, Attempted, Ended, Witness};
use toma_trace::counting::Attempt;

use super::filled::filled;

thread_local! {
    /// The attempts that this thread runs, innermost last.
    static ENTERED: RefCell<Vec<Attempt>> = const { RefCell::new(Vec::new()) };
}

struct Attempts;

impl Witness for Attempts {
    fn enter(&self, attempt: &Attempted<'_>) {
        let entered = Attempt::enter(attempt.name, attempt.size, attempt.resumes);
        // A thread that ends may have dropped the list already: the attempt is over for the profile then.
        let _ = ENTERED.try_with(|all| all.borrow_mut().push(entered));
    }

    fn leave(&self) {
        drop(ENTERED.try_with(|all| all.borrow_mut().pop()));
    }

    fn ended(&self, attempt: &Attempted<'_>, ended: Ended) {
        let how = match ended {
            Ended::Succeeded => None,
            Ended::Failed(class) => Some(class.to_string()),
            _ => Some("abandoned".to_owned()),
        };
        Attempt::ended(attempt.name, attempt.size, how.as_deref());
    }

    fn filled(&self) -> Option<String> {
        filled()
    }
}

/// Registers the witness for recordings. If the program has registered its own, recordings have no attempts.
pub(crate) fn register() {
    witness::register(&Attempts);
}

/// Switches the reports to the recording on or off.
pub(super) fn report(are_reported: bool) {
    witness::listen(are_reported);
}
