//! Records that bodies leave for their attempts: offers of leaner plans, and the time spent on recomputation.

use super::Call;
use crate::engine::again;
use crate::engine::options::Options;
use crate::engine::stages::Stages;
use crate::leaner::{self, Left};
use crate::nesting::Nesting;
use crate::observe::Watch;
use crate::policy::Policy;
use crate::shield;
use crate::switches::Switches;

impl Call<'_> {
    /// Takes the records that the attempt's body has left on this thread.
    #[cold]
    pub(crate) fn takes_left(&mut self) {
        self.leaves(leaner::take());
    }

    /// Adds records that the attempt's body has left.
    #[cold]
    pub(crate) fn leaves(&mut self, left: Left) {
        if !left.offers.is_empty() {
            leaner::has_offered(&self.memory.origin);
        }
        self.stages.get_or_insert_with(Stages::none).again.get_or_insert_default().add(left);
    }

    /// Opens a call that needs stages only because attempts have offered leaner plans. Returns true if it did.
    #[cold]
    pub(super) fn opens_plain_after_offers(
        &mut self,
        policy: &dyn Policy,
        options: &Options<'_>,
        switches: Switches,
    ) -> bool {
        let others = Switches::GIVES_STAGES & !Switches::OFFERED;
        let around =
            self.needs.anything() | switches.has(others) | Nesting::now().marks.anything() | shield::is_dry();
        let is_plain = !(options.need_stages() | around | Watch::is_needed(options.observer, switches));
        if is_plain {
            self.choose_first(policy, false, None);
            self.report.starts_at(self.machine.first_size());
            self.expect_offers();
        }
        is_plain
    }

    /// Notes before an attempt at the floor that its body may offer a leaner plan: there a panic is retried only if
    /// that was promised. Above the floor a retry is promised in any case.
    pub(super) fn expect_offers(&mut self) {
        let is_at_the_floor =
            !self.machine.is_done() && self.machine.coming_size() <= self.machine.sizes.floor;
        if is_at_the_floor && leaner::offers(&self.memory.origin) {
            self.stages.get_or_insert_with(Stages::none).again.get_or_insert_default().expects_offers = true;
        }
    }

    /// Asks the handles that the failed attempt has left for a leaner plan. Returns true if there is one.
    pub(super) fn leans(&mut self) -> bool {
        // Taken out of the call, because handles are user code and may run loops.
        let again = self.stages.as_mut().and_then(|stages| stages.again.as_mut());
        again.and_then(|again| again.left.take()).is_some_and(again::lean)
    }
}
