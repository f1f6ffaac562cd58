//! Whether others have used the device of a call, and may be why it ran out of memory.

use crate::share::Seat;

/// What a call has seen of others at its device since its last failure.
///
/// The attempt that took the memory is often over when the other's failure is judged, and so may be its
/// call. So a call looks before its first attempt, and then only when one has failed: whoever has been
/// there meanwhile has left a trace. That costs nothing where nothing fails.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Company {
    /// Visits to the device when the call looked.
    looked: Option<u64>,
    /// Others worked there then.
    met: bool,
}

impl Company {
    /// Looks before an attempt, unless it has done so since the last failure; `closely`: in any case.
    /// Returns whether others have ever been there, and may come again.
    pub(crate) fn look(&mut self, seat: &Seat, closely: bool) -> bool {
        if !closely && self.looked.is_some() {
            return self.met;
        }
        let visits = seat.visits();
        self.looked.get_or_insert(visits);
        self.met |= seat.has_company();
        self.met || visits != 0
    }

    /// Whether others have been there since, or are.
    pub(crate) fn has_come(self, seat: &Seat) -> bool {
        self.met || seat.has_company() || self.looked.is_some_and(|looked| seat.was_visited_since(looked))
    }
}
