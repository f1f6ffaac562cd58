//! A search for the times at which pages are fetched.
//!
//! # Why
//!
//! The next page to fetch is the missing one that is needed first, and the page to evict for it the one that is needed
//! last (Cao, Felten, Karlin and Li 1995). Only the time is open: an early fetch is waited for less, a late one can evict a
//! page that is needed later. So each operator has few states that others do not dominate, and the search follows all of
//! them.
//!
//! A step ends with the pages with which it begins. These are found by exchanging one page at a time.

use super::super::{Absence, Step, Terms};
use super::pages::{Pages, bits};

/// Limit on the states of all searches of a plan together.
const STATES: usize = 200_000;

/// Most states of an operator.
const WIDTH: usize = 500;

/// Most states of the link with which a step may begin.
const STARTS: usize = 16;

/// Relative difference below which times count as equal.
const SLACK: f64 = 1e-9;

/// Returns the absences of the fastest plan; `None` if the storages are no pages.
pub(super) fn absences(step: &Step, terms: &Terms) -> Option<Vec<Absence>> {
    let pages = Pages::of(step, terms)?;
    let mut search = FetchSearch { pages: &pages, left: STATES, seconds: f64::INFINITY, inside: Vec::new() };
    let mut kept = pages.first();
    search.begin_with(kept);
    while let Some(better) = search.better_than(kept) {
        kept = better;
    }
    (search.seconds < f64::INFINITY).then(|| pages.absences(&search.inside))
}

struct FetchSearch<'a> {
    pages: &'a Pages,
    left: usize,
    /// Time of the fastest step so far.
    seconds: f64,
    /// Its pages on the device when each operator has begun.
    inside: Vec<u64>,
}

/// State when an operator has ended.
#[derive(Clone, Copy, Debug)]
struct FetchState {
    /// Pages on the device, or on their way.
    inside: u64,
    /// The page on its way, as a set.
    coming: u64,
    /// Time since the step began.
    now: f64,
    /// Time at which the link is free.
    link: f64,
    /// Index of the state before the operator.
    parent: usize,
}

impl FetchState {
    /// True if a step that begins with the other state can begin with this one.
    fn is_as_early_as(&self, other: &Self) -> bool {
        self.coming == 0 || (self.coming == other.coming && self.link <= other.link * (1.0 + SLACK))
    }
}

impl FetchSearch<'_> {
    /// Returns pages with one of `kept` exchanged, if a step that begins with them is faster than all before.
    fn better_than(&mut self, kept: u64) -> Option<u64> {
        let missing = bits(self.pages.all() & !kept);
        let mut exchanged =
            missing.flat_map(|page| bits(kept).map(move |other| kept & !(1 << other) | 1 << page));
        exchanged.find(|kept| self.begin_with(*kept))
    }

    /// Searches the steps that begin with these pages. Returns true if one is faster than all before.
    fn begin_with(&mut self, kept: u64) -> bool {
        let before = self.seconds;
        let mut starts = vec![FetchState { inside: kept, coming: 0, now: 0.0, link: 0.0, parent: 0 }];
        let mut at = 0;
        while at < starts.len().min(STARTS) {
            let start = starts[at];
            let layers = self.layers(start);
            for end in layers.last().into_iter().flatten().filter(|end| end.inside == kept) {
                let again = FetchState { now: 0.0, link: end.link - end.now, ..*end };
                if again.is_as_early_as(&start) && end.now < self.seconds {
                    (self.seconds, self.inside) = (end.now, path(&layers, end));
                }
                let is_known =
                    |start: &FetchState| again.is_as_early_as(start) && start.is_as_early_as(&again);
                if !starts.iter().any(is_known) {
                    starts.push(again);
                }
            }
            at += 1;
        }
        self.seconds < before * (1.0 - SLACK)
    }

    /// Returns the states before each operator and at the end that may lead to a faster step.
    fn layers(&mut self, start: FetchState) -> Vec<Vec<FetchState>> {
        let mut rest: f64 = self.pages.seconds.iter().sum();
        let mut layers = vec![vec![start]];
        for at in 0..self.pages.uses.len() {
            rest -= self.pages.seconds[at];
            let mut after = Vec::new();
            for (parent, state) in layers[at].iter().enumerate() {
                self.follow(FetchState { parent, ..*state }, at, start.inside, &mut after);
            }
            // The step after this one may begin with less on its way.
            let limit = (self.seconds + start.link) * (1.0 - SLACK);
            after.retain(|state| state.now + rest < limit);
            distinct(&mut after);
            self.left = self.left.saturating_sub(after.len());
            if self.left == 0 {
                after.clear();
            }
            layers.push(after);
        }
        layers
    }

    /// Adds the states after an operator: without pages that are fetched ahead, with one, with two, and so on.
    fn follow(&self, mut state: FetchState, at: usize, kept: u64, after: &mut Vec<FetchState>) {
        let Pages { uses, seconds, .. } = self.pages;
        let mut start = if state.coming & uses[at] == 0 { state.now } else { state.link };
        for page in bits(uses[at] & !state.inside) {
            if !self.fetch(&mut state, at, kept, page) {
                return;
            }
            start = state.link;
        }
        let end = start + seconds[at];
        loop {
            let coming = if state.link > end { state.coming } else { 0 };
            after.push(FetchState { coming, now: end, link: state.link.max(end), ..state });
            // A fetch that could not begin before the end can as well wait for the next operator.
            if state.now.max(state.link) >= end {
                return;
            }
            let Some(page) = self.pages.missing(state.inside, at, kept) else { return };
            if !self.fetch(&mut state, at, kept, page) {
                return;
            }
        }
    }

    /// Fetches a page, unless all on the device are needed sooner.
    fn fetch(&self, state: &mut FetchState, at: usize, kept: u64, page: usize) -> bool {
        let Some(inside) = self.pages.exchanged(state.inside, at, kept, page) else { return false };
        let link = state.now.max(state.link) + self.pages.fetch;
        *state = FetchState { inside, coming: 1 << page, link, ..*state };
        true
    }
}

/// Removes states that others dominate.
fn distinct(states: &mut Vec<FetchState>) {
    states.sort_unstable_by(|one, other| {
        let sets = (one.inside, one.coming).cmp(&(other.inside, other.coming));
        sets.then(one.now.total_cmp(&other.now)).then(one.link.total_cmp(&other.link))
    });
    let mut least: Option<FetchState> = None;
    states.retain(|state| {
        let is_other = least.is_none_or(|least| (least.inside, least.coming) != (state.inside, state.coming));
        let is_kept = is_other || least.is_none_or(|least| state.link < least.link);
        if is_kept {
            least = Some(*state);
        }
        is_kept
    });
    if states.len() > WIDTH {
        states.sort_by(|one, other| one.now.total_cmp(&other.now).then(one.link.total_cmp(&other.link)));
        states.truncate(WIDTH);
    }
}

/// Returns the pages on the device when each operator has begun, on the way to a state.
fn path(layers: &[Vec<FetchState>], end: &FetchState) -> Vec<u64> {
    let mut inside = Vec::new();
    let mut state = end;
    for layer in layers[..layers.len() - 1].iter().rev() {
        inside.push(state.inside);
        state = &layer[state.parent];
    }
    inside.reverse();
    inside
}
