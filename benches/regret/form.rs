//! Forms of a run: sizes change inside one call, or from call to call.

use std::error::Error;

use toma::execute;
use toma::memory::MemorySource;
use toma::policy::Policy;
use toma::predict::Predict;

use crate::cache::OnePlace;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All items in one call.
    Range,
    /// A call for every step; how many there will be is unknown.
    Batch,
}

/// Options of a run.
pub(crate) struct Setting<'a> {
    pub(crate) cache: &'a OnePlace,
    pub(crate) policy: &'a dyn Policy,
    /// The memory source, if calls get one.
    pub(crate) device: Option<&'a dyn MemorySource>,
    /// The prediction before the first attempt, if there is one.
    pub(crate) predict: Option<&'a dyn Predict>,
    /// The initial size of a call without a learned one.
    pub(crate) initial: usize,
}

impl Form {
    pub(crate) const ALL: [Self; 2] = [Self::Range, Self::Batch];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Batch => "batch",
        }
    }

    /// Processes the items, attempt by attempt. Returns how many were done: a batch is always a whole one.
    pub(crate) fn run(
        self,
        items: usize,
        setting: &Setting<'_>,
        mut attempt: impl FnMut(usize) -> Result<(), Box<dyn Error>>,
    ) -> Result<usize, Box<dyn Error>> {
        let &Setting { cache, policy, device, predict, initial } = setting;
        let with = || {
            let with = execute::with::<OnePlace>().cache(cache).policy(policy);
            let with = if let Some(device) = device { with.device(device) } else { with };
            if let Some(predict) = predict { with.predict(predict) } else { with }
        };
        if self == Self::Range {
            return with().range(0..items, initial, |start, end| attempt(end - start)).map(|()| items);
        }
        let mut done = 0;
        while done < items {
            done += with().batch(initial, |size| attempt(size).map(|()| size))?;
        }
        Ok(done)
    }
}
