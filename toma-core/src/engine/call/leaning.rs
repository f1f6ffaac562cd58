//! What bodies leave for their attempts: offers of leaner plans, and the time that was spent on repeating.

use super::Call;
use crate::engine::again;
use crate::engine::options::Options;
use crate::engine::stages::Stages;
use crate::leaner::{self, Left};
use crate::nesting::Nesting;
use crate::observe::Watch;
use crate::policy::Policy;
use crate::shield::{self, Inside};
use crate::switches::Switches;

impl Call<'_> {
    /// What the bodies of the call are inside of.
    pub(crate) fn inside(&self) -> Inside {
        self.machine.inside()
    }

    /// Takes what the body of the attempt has left on this thread.
    #[cold]
    pub(crate) fn takes_left(&mut self) {
        self.leaves(leaner::take());
    }

    /// The body of the attempt has left something.
    #[cold]
    pub(crate) fn leaves(&mut self, left: Left) {
        if !left.offers.is_empty() {
            leaner::has_offered(&self.memory.origin);
        }
        self.stages.get_or_insert_with(Stages::none).again.get_or_insert_default().add(left);
    }

    /// Where attempts of the process have offered plans: opens a call that needs no stages but for that.
    #[cold]
    pub(super) fn opens_plain_after_offers(
        &mut self,
        policy: &dyn Policy,
        options: &Options<'_>,
        switches: Switches,
    ) -> bool {
        let others = switches.without_offered();
        let around =
            self.needs.anything() | others.anything() | Nesting::now().marks.anything() | shield::is_dry();
        let is_plain = !(options.need_stages() | around | Watch::is_needed(options.observer, switches));
        if is_plain {
            self.choose_first(policy, false, None);
            self.report.starts_at(self.machine.first_size());
            self.expect_offers();
        }
        is_plain
    }

    /// At the floor a panic is tried again only where that was promised, so it has to be known beforehand whether a
    /// leaner plan may be offered. Elsewhere it is promised in any case.
    pub(super) fn expect_offers(&mut self) {
        let is_at_the_floor =
            !self.machine.is_done() && self.machine.coming_size() <= self.machine.sizes.floor;
        if is_at_the_floor && leaner::offers(&self.memory.origin) {
            self.stages.get_or_insert_with(Stages::none).again.get_or_insert_default().expects_offers = true;
        }
    }

    /// Asks what the failed attempt has left for a leaner plan.
    pub(super) fn leans(&mut self) -> bool {
        // Taken out, because handles are foreign and may run loops.
        let again = self.stages.as_mut().and_then(|stages| stages.again.as_mut());
        again.and_then(|again| again.take_left()).is_some_and(again::lean)
    }
}
