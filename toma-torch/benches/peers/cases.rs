//! The cases to measure.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde_json::{Value, json};
use tch::TchError;
use toma::cache::SizeCache;
use toma::policy::Policy;
use toma::{Adaptive, Bisect, Halve, Throughput};
use toma::{GlobalCache, NoCache, StacktraceMemoryCache};
use toma_torch::cpu;

use crate::Result;
use crate::forms::{Choice, Form, Rows};
use crate::layer::Layer;
use crate::overhead;
use crate::world::{self, Work, World};

/// Figures by their names, each with its unit.
pub(crate) type Figures = BTreeMap<String, f64>;

/// A set of measurements. Each role is a process of its own, because the counting allocator, once installed, stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Loop,
    Toma,
    Counted,
}

impl Role {
    pub(crate) fn peer(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Toma | Self::Counted => "toma",
        }
    }

    /// Further properties that distinguish this role from others.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Loop => "",
            Self::Toma => env!("CARGO_PKG_VERSION"),
            Self::Counted => concat!(env!("CARGO_PKG_VERSION"), ", bytes counted"),
        }
    }
}

/// The cache of sizes.
type Cache = (&'static str, fn() -> Box<dyn SizeCache>);

const NO_CACHE: Cache = ("NoCache", || Box::new(NoCache));
const GLOBAL: Cache = ("GlobalCache", || Box::new(GlobalCache::new()));
const STACKTRACE: Cache = ("StacktraceMemoryCache", || Box::new(StacktraceMemoryCache::new()));

/// The policy, which decides the next size.
type Decision = (&'static str, fn() -> Box<dyn Policy>);

const HALVE: Decision = ("Halve", || Box::new(Halve));
const BISECT: Decision = ("Bisect", || Box::new(Bisect::default()));
const ADAPTIVE: Decision = ("Adaptive", || Box::new(Adaptive::default()));
const THROUGHPUT: Decision = ("Throughput", || Box::new(Throughput::default()));

/// A way to run a loop.
#[derive(Clone, Copy, Debug)]
enum Variant {
    /// By hand, with this part of the limit as its size.
    Fixed(Form, usize),
    Adapting(Form, Cache, Decision),
}

/// A way to run a loop, and the world it runs in. Without a world, the cost beyond the bodies is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    variant: Variant,
    world: Option<usize>,
}

pub(crate) struct Bench {
    role: Role,
    is_test: bool,
    layer: Layer,
    worlds: Vec<World>,
}

impl Bench {
    pub(crate) fn new(role: Role, is_test: bool) -> Result<Self> {
        if role == Role::Counted {
            cpu::count();
        }
        let mut worlds = world::all()?;
        worlds.truncate(if is_test { 1 } else { usize::MAX });
        Ok(Self { role, is_test, layer: Layer::new()?, worlds })
    }

    pub(crate) fn cases(&self) -> Vec<Case> {
        match self.role {
            Role::Loop => self.loops(),
            Role::Toma => every_variant().into_iter().flat_map(|variant| self.both(variant)).collect(),
            Role::Counted => counted().into_iter().flat_map(|variant| self.in_worlds(variant)).collect(),
        }
    }

    /// The cost of a loop does not depend on its size, and its time does not depend on its form.
    fn loops(&self) -> Vec<Case> {
        let overheads = Form::ALL.map(|form| Case { variant: Variant::Fixed(form, 1), world: None });
        let runs = [1, 2, 4].map(|share| self.in_worlds(Variant::Fixed(Form::Range, share)));
        overheads.into_iter().chain(runs.into_iter().flatten()).collect()
    }

    fn both(&self, variant: Variant) -> Vec<Case> {
        [Case { variant, world: None }].into_iter().chain(self.in_worlds(variant)).collect()
    }

    fn in_worlds(&self, variant: Variant) -> Vec<Case> {
        (0..self.worlds.len()).map(|world| Case { variant, world: Some(world) }).collect()
    }

    /// Returns the properties that distinguish a case from all others of this role.
    pub(crate) fn name(&self, case: &Case) -> Value {
        let group = case.world.map_or("overhead", |world| &self.worlds[world].name);
        let (form, cache, policy) = match case.variant {
            Variant::Fixed(form, _) if case.world.is_none() => (form, "", String::new()),
            Variant::Fixed(form, share) => (form, "", format!("1/{share}")),
            Variant::Adapting(form, (cache, _), (policy, _)) => (form, cache, policy.to_owned()),
        };
        json!({ "form": form, "cache": cache, "policy": policy, "group": group })
    }

    pub(crate) fn measure(&self, case: &Case) -> Result<Figures> {
        let (cache, policy) = match case.variant {
            Variant::Fixed(..) => (NO_CACHE.1(), HALVE.1()),
            Variant::Adapting(_, (_, cache), (_, policy)) => (cache(), policy()),
        };
        let choice = Choice { cache: &*cache, policy: &*policy };
        match case.world {
            None => {
                overhead::measure(self.is_test, case.variant.form(), |empty| case.variant.run(empty, choice))
            }
            Some(world) => {
                let work = Work::new(&self.layer, &self.worlds[world], self.role == Role::Counted)?;
                work.runs(|| case.variant.run(&work, choice))
            }
        }
    }
}

impl Variant {
    fn form(self) -> Form {
        match self {
            Self::Fixed(form, _) | Self::Adapting(form, ..) => form,
        }
    }

    /// Makes one call.
    fn run(self, rows: &impl Rows, choice: Choice<'_>) -> std::result::Result<(), TchError> {
        match self {
            Self::Fixed(form, share) => form.by_hand(rows, share),
            Self::Adapting(form, ..) => form.adapting(rows, choice),
        }
    }
}

/// Returns every form with every cache, then every policy, where its effect is largest.
fn every_variant() -> Vec<Variant> {
    let halving = |cache| Form::ALL.map(|form| Variant::Adapting(form, cache, HALVE));
    let forms = [NO_CACHE, GLOBAL, STACKTRACE].into_iter().flat_map(halving);
    let policies = [BISECT, ADAPTIVE, THROUGHPUT].map(|policy| in_ranges(GLOBAL, policy));
    let others = [Form::Batch, Form::Chunked].map(|form| Variant::Adapting(form, GLOBAL, ADAPTIVE));
    forms.chain(policies).chain(others).collect()
}

/// Returns the variants for which counted bytes make a difference.
fn counted() -> Vec<Variant> {
    let batch = Variant::Adapting(Form::Batch, GLOBAL, ADAPTIVE);
    vec![in_ranges(GLOBAL, ADAPTIVE), in_ranges(GLOBAL, THROUGHPUT), batch]
}

fn in_ranges(cache: Cache, policy: Decision) -> Variant {
    Variant::Adapting(Form::Range, cache, policy)
}
