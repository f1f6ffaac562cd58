//! The policies compared, and the selection of them.

use std::env;

use toma::policy::Policy;
use toma::{Adaptive, Bisect, Decay, Halve, Throughput};

pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) make: fn() -> Box<dyn Policy>,
    /// True if the bars apply to this policy.
    pub(crate) has_bars: bool,
}

/// The program's arguments.
pub(crate) struct Arguments {
    /// The policies whose names contain the argument, or all.
    pub(crate) policies: Vec<&'static Entry>,
    pub(crate) is_test: bool,
}

impl Arguments {
    pub(crate) fn read(all: impl IntoIterator<Item = &'static Entry>) -> Self {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let only = arguments.iter().map(String::as_str).find(|argument| !argument.starts_with("--"));
        let policies = all.into_iter().filter(|policy| only.is_none_or(|only| policy.name.contains(only)));
        let policies: Vec<_> = policies.collect();
        assert!(!policies.is_empty(), "no policy has that in its name");
        Self { policies, is_test: arguments.iter().any(|argument| argument == "--test") }
    }
}

pub(crate) const POLICIES: &[Entry] = &[
    Entry { name: "Halve", make: || Box::new(Halve), has_bars: false },
    Entry { name: "Decay(0.9)", make: || Box::new(Decay::new(0.9)), has_bars: false },
    Entry { name: "Bisect", make: || Box::new(Bisect::default()), has_bars: false },
    Entry { name: "Adaptive", make: || Box::new(Adaptive::default()), has_bars: true },
    Entry { name: "Throughput", make: || Box::new(Throughput::default()), has_bars: false },
];

/// Policies that retry a larger size sooner or later, to compare the costs of finding a limit that has risen.
pub(crate) const DOUBTS: &[Entry] = &[
    Entry { name: "doubt(0.2)", make: || Box::new(Adaptive::default().doubt(0.2)), has_bars: false },
    Entry { name: "doubt(0.5)", make: || Box::new(Adaptive::default().doubt(0.5)), has_bars: false },
];
