//! Sequences of pages against the least stall of anything, by a search of each unit of time.

use std::collections::VecDeque;
use std::time::Duration;

use toma_plan::residency::{
    Eviction as _, Flow, Operator, Step, Storage, Terms, Use, simulate, simulate_plan,
};

use crate::rounds::rounds;
use crate::{Draw, float};

/// Accesses to pages of one byte, each of a second, on a device that holds so many pages. A fetch takes so many seconds.
#[derive(Clone, Debug)]
struct Accesses {
    pages: Vec<usize>,
    slots: u32,
    fetch: usize,
    /// True if the next accesses begin at once; false if each begin with the best pages on the device.
    repeats: bool,
}

/// Bits of the pages on the device, and the page on its way with the seconds that are left, or 0 seconds.
type State = (usize, usize, usize);

impl Accesses {
    /// The text's pages are letters.
    fn of(text: &str, slots: u32, fetch: usize) -> Self {
        let pages = text.bytes().map(|letter| usize::from(letter - b'A')).collect();
        Self { pages, slots, fetch, repeats: false }
    }

    fn count(&self) -> usize {
        self.pages.iter().max().unwrap() + 1
    }

    fn step(&self) -> Step {
        let page = Storage { bytes: 1, birth: None, death: None, stays: false };
        let access =
            |uses, seconds| Operator { uses, inside_bytes: 0, duration: Duration::from_secs(seconds) };
        let accesses = self.pages.iter().map(|&storage| access(vec![Use { storage, writes: false }], 1));
        // In a long pause all pages can be fetched.
        let pause = access(Vec::new(), 1000);
        let operators = accesses.chain((!self.repeats).then_some(pause)).collect();
        Step { storages: vec![page; self.count()], operators }
    }

    fn terms(&self) -> Terms {
        let in_bytes_per_second = 1.0 / float(self.fetch as u64);
        Terms { in_bytes_per_second, ..Terms::bytes_alone(u64::from(self.slots)) }
    }

    /// Returns the stall of a step under its plan, or on demand if there is none.
    fn planned(&self) -> f64 {
        let (step, terms) = (self.step(), self.terms());
        let plan = Flow::default().plan(&step, &terms);
        let outcome = match &plan {
            Some(plan) => simulate_plan(&step, &terms, plan, 120),
            None => simulate(&step, &terms, &mut Flow::default(), 120),
        };
        // Evictions on demand may alternate over as many steps as there are pages.
        let stalled = outcome.rounds[60..].iter().map(|round| round.stalled_seconds).sum::<f64>() / 60.0;
        if let Some(plan) = plan {
            let promised = plan.seconds() - plan.operator_seconds();
            assert!((stalled - promised).abs() < 1e-6, "{self:?}: {stalled} of {promised}, {plan:?}");
        }
        stalled
    }

    /// Returns the least stall of any sequence of fetches.
    fn least(&self) -> usize {
        let full = self.slots.min(u32::try_from(self.count()).unwrap());
        let sets = || (0_usize..1 << self.count()).filter(|set| set.count_ones() <= full);
        let idle: Vec<State> = sets().filter(|set| set.count_ones() == full).map(|set| (set, 0, 0)).collect();
        if !self.repeats {
            let all = |_: &State| true;
            return self.least_between(&idle, all);
        }
        let coming = sets().filter(|set| set.count_ones() + 1 == full).flat_map(|set| {
            let missing = (0..self.count()).filter(move |page| set & (1 << page) == 0);
            missing.flat_map(move |page| (1..self.fetch).map(move |left| (set, page, left)))
        });
        idle.into_iter()
            .chain(coming)
            .map(|start| self.least_between(&[start], |end| *end == start))
            .min()
            .unwrap()
    }

    fn least_between(&self, starts: &[State], is_end: impl Fn(&State) -> bool) -> usize {
        let count = self.count();
        let index =
            |at: usize, (set, page, left): State| ((at << count | set) * count + page) * self.fetch + left;
        let mut seen = vec![false; ((self.pages.len() + 1) << count) * count * self.fetch];
        // Positions whose stall is the least so far are at the front.
        let mut queue: VecDeque<_> = starts.iter().map(|start| (0, *start, 0)).collect();
        while let Some((at, state, stall)) = queue.pop_front() {
            if std::mem::replace(&mut seen[index(at, state)], true) {
                continue;
            }
            if at == self.pages.len() {
                if is_end(&state) {
                    return stall;
                }
                continue;
            }
            self.decisions(state, |(set, page, left)| {
                let arrived =
                    if left == 1 { (set | 1 << page, 0, 0) } else { (set, page, left.saturating_sub(1)) };
                if set & (1 << self.pages[at]) != 0 {
                    queue.push_front((at + 1, arrived, stall));
                } else {
                    queue.push_back((at, arrived, stall + 1));
                }
            });
        }
        usize::MAX
    }

    /// Calls `then` with each move that can be under way in the next second: none, or any page in place of any other.
    fn decisions(&self, (set, page, left): State, mut then: impl FnMut(State)) {
        then((set, page, left));
        if left > 0 {
            return;
        }
        for fetched in (0..self.count()).filter(|page| set & (1 << page) == 0) {
            if set.count_ones() < self.slots {
                then((set, fetched, self.fetch));
            }
            for evicted in (0..self.count()).filter(|page| set & (1 << page) != 0) {
                then((set & !(1 << evicted), fetched, self.fetch));
            }
        }
    }

    fn check(&self) {
        let (planned, least) = (self.planned(), float(self.least() as u64));
        assert!(planned <= least + 1e-6, "{self:?}: {planned} of {least}");
        assert!(self.repeats || planned >= least - 1e-6, "{self:?}: {planned} of {least}");
    }
}

#[test]
fn sequences_of_the_literature_stall_as_little_as_possible() {
    for (accesses, least) in [(Accesses::of("ABCDEFCA", 4, 4), 5), (Accesses::of("ABCDEDCBA", 3, 3), 6)] {
        assert_eq!(accesses.least(), least, "{accesses:?}");
        accesses.check();
    }
}

/// All sequences up to renaming of pages: a page is either one of those before or the next one.
fn sequences(most: usize, pages: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![vec![0]];
    let mut at = 0;
    while at < all.len() && all[at].len() < most {
        let next = all[at].iter().max().unwrap() + 1;
        for page in 0..=next.min(pages - 1) {
            let longer = [&*all[at], &[page]].concat();
            all.push(longer);
        }
        at += 1;
    }
    all
}

/// Checks every sequence of up to so many accesses over 5 pages, or each of `every`.
fn check_all(most: usize, repeats: bool, every: usize) {
    let mut count = 0;
    let mut cases = 0;
    for pages in sequences(most, 5) {
        for slots in 1..=4 {
            for fetch in 1..=4 {
                cases += 1;
                if cases % every == 0 {
                    Accesses { pages: pages.clone(), slots, fetch, repeats }.check();
                    count += 1;
                }
            }
        }
    }
    println!("{count} of {cases} sequences of up to {most} accesses");
}

#[test]
fn every_short_sequence_stalls_as_little_as_possible() {
    check_all(9, false, rounds(401, 1));
}

#[test]
fn every_short_sequence_that_repeats_stalls_as_little_as_possible() {
    check_all(7, true, rounds(61, 1));
}

fn random(draw: &mut Draw, [least, most]: [usize; 2], pages: usize, slots: usize, repeats: bool) -> Accesses {
    let accesses = least + draw.below(most - least + 1);
    let mut order: Vec<_> = (0..pages).collect();
    order.extend((pages..accesses).map(|_| draw.below(pages)));
    for at in (1..order.len()).rev() {
        order.swap(at, draw.below(at + 1));
    }
    Accesses { pages: order, slots: u32::try_from(slots).unwrap(), fetch: 1 + draw.below(6), repeats }
}

#[test]
fn long_sequences_stall_hardly_more_than_possible() {
    let mut most = 1.0_f64;
    for seed in 0..rounds(10, 1000) {
        let mut draw = Draw(seed);
        let (pages, slots) = (8 + draw.below(5), 3 + draw.below(3));
        let accesses = random(&mut draw, [30, 60], pages, slots, false);
        let (planned, least) = (accesses.planned(), float(accesses.least() as u64));
        assert!(planned >= least - 1e-6 && planned <= 1.05 * least, "{accesses:?}: {planned} of {least}");
        most = most.max(planned / least.max(1.0));
    }
    println!("at most {most}");
}
