//! Limits that double or halve in the middle of a run.

use std::cell::{Cell, RefCell};

use toma::testing::StoppedClock;

use crate::cache::OnePlace;
use crate::form::Setting;
use crate::policies::Entry;
use crate::source::{Shown, Source};
use crate::subject::{Subject, subjects};
use crate::table::Figures;
use crate::world::{World, bytes, grid, played};

/// Steps after which a run must be back at the oracle's pace.
const STEPS: f64 = 20.0;
/// Attempts that are averaged.
const WINDOW: usize = 50;
/// The largest ratio to the oracle's pace that counts as near.
const NEAR: f64 = 1.1;
/// Attempts before the limit moves: several, because a schedule may happen to suit any one of them.
const MOMENTS: [(&str, [usize; 5]); 2] =
    [("about 100", [80, 90, 100, 110, 120]), ("about 400", [320, 360, 400, 440, 480])];

/// Attempts after the move that are examined; a run that is not back by then never is.
const LOOKED_AT: usize = 1000;

/// Prints the table, and returns the bars that are not met.
pub(crate) fn report(policies: &[&Entry], is_test: bool) -> Vec<String> {
    let worlds = played(grid().into_iter().filter(World::is_for_moving).collect(), is_test);
    println!(
        "the limit moves in the middle of a run, {} worlds, five moments: attempts until within 10 % of the oracle\n",
        worlds.len()
    );
    println!(
        "| policy | form | memory source | moves after | doubles: median | p95 | halves: median | p95 |\n|---|---|---|---|---|---|---|---|"
    );
    let mut fails = Vec::new();
    for subject in subjects(policies, &[Source::Unknown, Source::Reads, Source::Counts, Source::Predicted]) {
        for moments in &MOMENTS {
            fails.extend(line(subject, &worlds, moments));
        }
    }
    println!();
    fails
}

fn line(subject: Subject<'_>, worlds: &[World], (about, moments): &(&str, [usize; 5])) -> Vec<String> {
    let (policy, form, source) = subject;
    let all = || worlds.iter().flat_map(|world| moments.map(|before| (world, before)));
    let steps = |factor: f64| {
        Figures::of(all().map(|(world, before)| run(world, subject, Shift { before, factor })).collect())
    };
    let (doubles, halves) = (steps(2.0), steps(0.5));
    let shown = |figures: &Figures| [50, 95].map(|percent| words(figures.at(percent))).join(" | ");
    println!(
        "| `{}` | {} | {} | {about} | {} | {} |",
        policy.name,
        form.word(),
        source.word(),
        shown(&doubles),
        shown(&halves)
    );
    let figures = [("doubles", &doubles), ("halves", &halves)];
    let missed = figures.into_iter().filter(|(_, figures)| policy.has_bars && figures.at(95) > STEPS);
    missed
        .map(|(title, _)| format!("{} {} {}: {title} after {about}", policy.name, form.word(), source.word()))
        .collect()
}

/// A move of the limit.
#[derive(Clone, Copy)]
struct Shift {
    before: usize,
    factor: f64,
}

fn words(steps: f64) -> String {
    if steps.is_finite() { format!("{steps}") } else { "never".to_owned() }
}

/// Time of one attempt in milliseconds, and the items it did.
struct Attempt {
    time: f64,
    done: usize,
}

impl World {
    /// Returns true if the run is long enough for a change to matter, with room above the limit.
    fn is_for_moving(&self) -> bool {
        self.items == 1_000_000 && 4 * self.limit <= self.initial && self.items >= 1000 * self.limit
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes are small"
    )]
    fn moved(&self, factor: f64) -> Self {
        Self { limit: (self.limit as f64 * factor) as usize, ..*self }
    }

    /// Milliseconds per item at the best size.
    #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
    fn pace(&self) -> f64 {
        self.time(self.limit) / self.limit as f64
    }
}

/// Runs a world, and returns the attempts from the move of the limit until the pace is near the oracle's.
fn run(world: &World, (policy, form, source): Subject<'_>, shift: Shift) -> f64 {
    let moved = world.moved(shift.factor);
    let (device, clock, cache) = (world.device(), StoppedClock::new(), OnePlace::new());
    let (count, attempts) = (Cell::new(0), RefCell::new(Vec::new()));
    let policy = (policy.make)();
    let shown = Shown(&device, source);
    let setting = Setting {
        cache: &cache,
        policy: &*policy,
        device: shown.device(),
        predict: source.predict(),
        initial: world.initial,
    };
    let ended = form.run(world.items, &setting, |size| {
        count.set(count.get() + 1);
        let has_moved = count.get() > shift.before;
        if has_moved {
            device.set_budget(bytes(moved.limit));
        }
        let (now, before) = (if has_moved { moved } else { *world }, clock.elapsed());
        let result = now.attempt(&device, &clock, size);
        let time = clock.elapsed().saturating_sub(before).as_secs_f64() * 1000.0;
        if has_moved {
            attempts.borrow_mut().push(Attempt { time, done: if result.is_ok() { size } else { 0 } });
        }
        if attempts.borrow().len() == LOOKED_AT {
            return Err("enough is seen".into());
        }
        Ok(result?)
    });
    assert!(ended.is_ok() || attempts.borrow().len() == LOOKED_AT, "a size of 1 fits: {ended:?}");
    back(&attempts.borrow(), moved.pace())
}

/// Attempts after which the average of the next ones, failures included, stays near the pace.
#[expect(clippy::cast_precision_loss, reason = "there are few attempts")]
fn back(attempts: &[Attempt], pace: f64) -> f64 {
    let is_near = |window: &[Attempt]| {
        let time: f64 = window.iter().map(|attempt| attempt.time).sum();
        let items: usize = window.iter().map(|attempt| attempt.done).sum();
        time <= items as f64 * pace * NEAR
    };
    attempts.windows(WINDOW).position(is_near).map_or(f64::INFINITY, |steps| steps as f64)
}
