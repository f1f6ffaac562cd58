//! The policies compared.

use toma::policy::{Adaptive, Bisect, Decay, Halve, Policy};

pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) make: fn() -> Box<dyn Policy>,
    /// Whether the bars are about it.
    pub(crate) has_bars: bool,
}

pub(crate) const POLICIES: &[Entry] = &[
    Entry { name: "Halve", make: || Box::new(Halve), has_bars: false },
    Entry { name: "Decay(0.9)", make: || Box::new(Decay::new(0.9)), has_bars: false },
    Entry { name: "Bisect", make: || Box::new(Bisect::default()), has_bars: false },
    Entry { name: "Adaptive", make: || Box::new(Adaptive::default()), has_bars: true },
    // What a limit that rises unseen costs to find sooner, or later.
    Entry { name: "doubt(0.2)", make: || Box::new(Adaptive::default().doubt(0.2)), has_bars: false },
    Entry { name: "doubt(0.5)", make: || Box::new(Adaptive::default().doubt(0.5)), has_bars: false },
];
