//! Whole runs through the engine.

use std::cell::Cell;

use toma::predict::Predict;
use toma::testing::StoppedClock;

use crate::cache::OnePlace;
use crate::form::{Form, Setting};
use crate::policies::Entry;
use crate::source::{Shown, Source};
use crate::table::Runs;
use crate::world::{Prediction, World};

#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
pub(crate) fn runs(world: &World, policy: &Entry, source: Source, form: Form) -> Runs {
    let (device, cache, policy) = (world.device(), OnePlace::new(), (policy.make)());
    let shown = Shown(&device, source);
    let run = || {
        let (clock, failures) = (StoppedClock::new(), Cell::new(0));
        let setting = Setting {
            cache: &cache,
            policy: &*policy,
            device: shown.device(),
            predict: source.predict(),
            initial: world.initial,
        };
        let done = form.run(world.items, &setting, |size| {
            let result = world.attempt(&device, &clock, size);
            failures.set(failures.get() + usize::from(result.is_err()));
            Ok(result?)
        });
        let share = done.expect("a size of 1 fits") as f64 / world.items as f64;
        (clock.elapsed().as_secs_f64() * 1000.0 / (world.best() * share), failures.get())
    };
    let (cold, out_of_memory) = run();
    let kept = cache.settled().unwrap_or(world.initial);
    let (warm, _) = run();
    Runs { cold, warm, out_of_memory, kept: kept as f64 / world.limit as f64 }
}

impl Source {
    /// The value of the option `predict`, if any.
    pub(crate) fn predict(self) -> Option<&'static dyn Predict> {
        (self == Self::Predicted).then_some(&Prediction)
    }
}
