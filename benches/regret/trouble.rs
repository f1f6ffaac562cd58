//! Runs with disturbances: noise, failures without a reason, limits that move, little to do.

use std::time::Duration;

use fastrand::Rng;
use toma::testing::{FakeDevice, FakeOutOfMemory, StoppedClock};

use crate::cache::OnePlace;
use crate::form::Setting;
use crate::policies::Entry;
use crate::source::{Shown, Source};
use crate::subject::{Subject, subjects};
use crate::table::Figures;
use crate::world::{World, bytes, grid, needed, played};

/// A disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Bytes and times differ by 4 % from attempt to attempt, and now and then by 20 %.
    Noise,
    /// Each hundredth attempt fails, at any size.
    Chance,
    /// After a third of the items, a sixteenth of the limit is left for 20 attempts.
    Shortage,
    /// After a third of the items, twice as many fit.
    Rise,
    /// After a third of the items, half as many fit.
    Fall,
    /// Each call has two and a half steps to do.
    Short,
    /// A few dozen items in all, and a single one takes the bytes of two.
    Few,
}

const ALL: [(&str, Trouble); 7] = [
    ("noise", Trouble::Noise),
    ("failures by chance", Trouble::Chance),
    ("shortage", Trouble::Shortage),
    ("rise", Trouble::Rise),
    ("fall", Trouble::Fall),
    ("short calls", Trouble::Short),
    ("few items", Trouble::Few),
];

/// Prints the table.
pub(crate) fn report(policies: &[&Entry], is_test: bool) {
    println!("something is in the way: time over that of an oracle that knows the limit of each moment\n");
    println!(
        "| policy | form | memory source | trouble | worlds | cold: median | p95 | warm: median | p95 |\n|---|---|---|---|---|---|---|---|---|"
    );
    let sources = [Source::Unknown, Source::Reads, Source::Counts, Source::Predicted];
    for subject in subjects(policies, &sources) {
        for (name, trouble) in ALL {
            line(subject, name, trouble, is_test);
        }
    }
    println!();
}

fn line(subject: Subject<'_>, name: &str, trouble: Trouble, is_test: bool) {
    let (policy, form, source) = subject;
    let worlds = played(trouble.worlds(), is_test);
    let runs: Vec<[f64; 2]> = worlds.iter().map(|world| run(world, subject, trouble)).collect();
    let [cold, warm] = [0, 1].map(|i| Figures::of(runs.iter().map(|run| run[i]).collect()));
    println!(
        "| `{}` | {} | {} | {name} | {} | {:.4} | {:.3} | {:.4} | {:.3} |",
        policy.name,
        form.word(),
        source.word(),
        worlds.len(),
        cold.at(50),
        cold.at(95),
        warm.at(50),
        warm.at(95)
    );
}

impl Trouble {
    fn worlds(self) -> Vec<World> {
        if self != Self::Few {
            let is_long = |world: &World| world.items >= 100 * world.limit && world.items < 1_000_000;
            return grid().into_iter().filter(is_long).step_by(7).collect();
        }
        let limits = [2, 3, 5, 8, 13, 20];
        let of = |limit: usize| {
            let times = [(1.0, 0.5), (10.0, 0.1), (10.0, 1.0), (100.0, 0.5)];
            times.map(move |(fixed, failure)| {
                [24, 64].map(|initial| World {
                    items: 2 * initial,
                    initial,
                    limit,
                    fixed,
                    saturation: 1,
                    failure,
                })
            })
        };
        limits.into_iter().flat_map(of).flatten().collect()
    }
}

/// One run, and its progress so far.
#[derive(Debug)]
struct Run<'a> {
    world: &'a World,
    trouble: Trouble,
    device: &'a FakeDevice,
    clock: StoppedClock,
    rng: &'a mut Rng,
    /// Attempts since a third of the items was done.
    later: usize,
    done: usize,
    /// Milliseconds that the oracle has taken for the items done.
    oracle: f64,
}

/// Time over the oracle's, cold and warm.
fn run(world: &World, (policy, form, source): Subject<'_>, trouble: Trouble) -> [f64; 2] {
    let (device, cache, policy) = (world.device(), OnePlace::new(), (policy.make)());
    let (shown, mut rng) = (Shown(&device, source), Rng::with_seed(7));
    let setting = Setting {
        cache: &cache,
        policy: &*policy,
        device: shown.device(),
        predict: source.predict(),
        initial: world.initial,
    };
    let items = if trouble == Trouble::Short { 5 * world.limit / 2 } else { world.items };
    [(), ()].map(|()| {
        let mut run = Run::new(world, trouble, &device, &mut rng);
        while run.done < world.items {
            let done = form.run(items, &setting, |size| Ok(run.attempt(size)?));
            done.expect("a size of 1 fits");
        }
        run.clock.elapsed().as_secs_f64() * 1000.0 / run.oracle
    })
}

impl<'a> Run<'a> {
    fn new(world: &'a World, trouble: Trouble, device: &'a FakeDevice, rng: &'a mut Rng) -> Self {
        Self { world, trouble, device, clock: StoppedClock::new(), rng, later: 0, done: 0, oracle: 0.0 }
    }

    #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
    fn attempt(&mut self, size: usize) -> Result<(), FakeOutOfMemory> {
        let limit = self.limit();
        self.device.set_budget(bytes(limit));
        let now = World { limit, ..*self.world };
        let needs = self.needs(size, limit);
        let memory = self.device.alloc(needs);
        let time = if memory.is_ok() { now.time(size) } else { now.failure * now.time(size.min(2 * limit)) };
        let time = time * self.noise() / 1000.0;
        self.clock.advance(Duration::from_secs_f64(time));
        if memory.is_ok() {
            let best = limit.min(self.world.initial);
            self.done += size;
            self.oracle += size as f64 * now.time(best) / best as f64;
        }
        memory.map(drop)
    }

    /// The largest size that fits the next attempt.
    fn limit(&mut self) -> usize {
        let (is_later, limit) = (self.done * 3 >= self.world.items, self.world.limit);
        self.later += usize::from(is_later);
        match self.trouble {
            Trouble::Rise if is_later => 2 * limit,
            Trouble::Fall if is_later => limit / 2,
            Trouble::Shortage if (1..=20).contains(&self.later) => (limit / 16).max(1),
            _ => limit,
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bytes are few here"
    )]
    fn needs(&mut self, size: usize, limit: usize) -> u64 {
        match self.trouble {
            // A failure at size 1 would end the call, so that size never fails by chance.
            Trouble::Chance if size > 1 && self.rng.u8(..100) == 0 => u64::MAX / 2,
            Trouble::Few if size == 1 => needed(2).min(needed(limit)),
            _ => (needed(size) as f64 * self.noise()) as u64,
        }
    }

    fn noise(&mut self) -> f64 {
        if self.trouble != Trouble::Noise {
            return 1.0;
        }
        0.98 + 0.04 * self.rng.f64() + if self.rng.u8(..) < 2 { 0.2 } else { 0.0 }
    }
}
