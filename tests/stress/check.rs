//! Invariants that must hold once a call has ended.

use std::any::Any;

use toma::classify::{Class, OutOfMemory};
use toma::observe::Reason;
use toma::report;

use crate::ending::{Ending, text_of};
use crate::fault::Fault;
use crate::log::Here;
use crate::plan::Form;
use crate::printed;
use crate::scene::Scene;
use crate::world::lock;

impl Scene<'_> {
    /// Asserts that all items are done, in order, or that the failure is the one that had to go through.
    pub(crate) fn check(&self, ending: &Ending) {
        match ending {
            Ending::Done(values) => {
                let mut log = lock(&self.log);
                log.succeed(self.plan);
                assert!(log.left_out.is_empty() || self.plan.form == Form::LeftOut, "{log:?}");
                if let Some(values) = values {
                    assert_eq!(*values, log.done, "values are lost or out of order");
                }
            }
            Ending::Left => {}
            Ending::Error(fault) => self.check_fault(fault.number),
            Ending::Panic(payload) => self.check_panic(&**payload),
        }
    }

    /// Asserts that a fault which goes through is the last one, or that of the first item that was left out, once all
    /// others are done.
    fn check_fault(&self, number: u64) {
        let mut log = lock(&self.log);
        if let Some(here) = log.failed_here() {
            let (last, class) = lock(&self.actor.state).last.expect("there was a fault");
            assert_eq!(number, last, "another failure goes through than the last: {log:?}");
            assert!(
                self.may_give_up(class, here, log.is_in_fallback()),
                "given up too early for {class:?}: {log:?}, {:?}",
                report::last().map(|report| report.gave_up)
            );
        } else {
            log.succeed_without(self.plan);
            assert_eq!(log.first_left_out, Some(number), "{log:?}");
            // The enclosing call now receives this fault, although others came after it.
            lock(&self.actor.state).last = Some((number, Class::OutOfMemory));
        }
    }

    fn check_panic(&self, payload: &dyn Any) {
        let text = text_of(payload).unwrap_or_default();
        if let Some(number) = Fault::number_in(text) {
            return self.check_fault(number);
        }
        // Any other panic is an assertion of this test.
        assert!(is_injected(payload), "{text}");
        assert!(self.actor.is_injecting(), "nothing was injected: {text}");
    }

    fn may_give_up(&self, class: Class, here: &Here, in_fallback: bool) -> bool {
        let sizes = &self.plan.sizes;
        let can_shrink = self.plan.size(&here.last) > sizes.floor();
        match class {
            _ if self.plan.deadline.is_some() || here.attempts >= sizes.max_attempts => true,
            _ if self.actor.cancel.is_cancelled() => true,
            Class::OutOfMemory if self.gave_way() => true,
            Class::OutOfMemory => !can_shrink && (in_fallback || !self.plan.rungs.fallback),
            Class::Transient => here.repeats > 1,
            _ => true,
        }
    }

    /// Returns true if the enclosing attempt will be retried with the device to itself.
    fn gave_way(&self) -> bool {
        self.depth > 0 && report::last().and_then(|report| report.gave_up) == Some(Reason::GaveWay)
    }

    /// Asserts that the library counts the same attempts as the log. An injected failure may end a call before its body
    /// has run.
    pub(crate) fn check_report(&self, ending: &Ending) {
        let (counted, log) = (report::last().expect("a call has ended").attempts, lock(&self.log));
        let injected = matches!(ending, Ending::Panic(payload) if is_injected(&**payload));
        let unseen = counted.checked_sub(log.attempts);
        assert!(unseen.is_some_and(|unseen| unseen <= usize::from(injected)), "{counted} attempts: {log:?}");
    }
}

/// Returns true for a panic of [`toma::testing::inject`].
pub(crate) fn is_injected(payload: &dyn Any) -> bool {
    payload.is::<OutOfMemory>() || text_of(payload).is_some_and(printed::is_injected)
}
