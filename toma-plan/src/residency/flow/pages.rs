//! Steps whose storages are pages: equal in size, always alive and never written.

use super::super::{Absence, Back, Operator, Step, Storage, Terms};
use super::cover::as_float;

/// The pages of a step, as bits, and the operators that use them.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// Storage of each page.
    storages: Vec<usize>,
    /// Pages that each operator uses.
    pub(super) uses: Vec<u64>,
    pub(super) seconds: Vec<f64>,
    /// First operator that uses each page, from each operator on; `NEVER` if none does.
    next: Vec<Vec<usize>>,
    /// Number of pages that the device holds.
    pub(super) slots: usize,
    /// Time of a fetch.
    pub(super) fetch: f64,
}

const NEVER: usize = usize::MAX;

impl Pages {
    /// Returns the pages of a step; `None` if its storages are no pages, or all of them fit.
    pub(super) fn of(step: &Step, terms: &Terms) -> Option<Self> {
        let movable = step.storages.iter().enumerate().filter(|(_, row)| !row.stays && row.bytes > 0);
        let storages: Vec<_> = movable.map(|(storage, _)| storage).collect();
        let bytes = step.storages[*storages.first()?].bytes;
        let page = Storage { bytes, birth: None, death: None, stays: false };
        if storages.len() > 64 || storages.iter().any(|storage| step.storages[*storage] != page) {
            return None;
        }
        let pages_of = |operator: &Operator| -> Option<u64> {
            let found = operator.uses.iter().map(|one| (one, storages.binary_search(&one.storage)));
            let mut found = found.filter_map(|(one, page)| Some((one, page.ok()?)));
            found.try_fold(0, |set, (one, page)| (!one.writes).then_some(set | 1 << page))
        };
        let uses = step.operators.iter().map(pages_of).collect::<Option<Vec<_>>>()?;
        let others = step.needed_bytes().into_iter().zip(&uses);
        let others = others.map(|(needed, used)| needed - u64::from(used.count_ones()) * page.bytes);
        let slots = terms.budget_bytes.checked_sub(others.max()?)? / page.bytes;
        let slots = usize::try_from(slots).ok().filter(|slots| *slots < storages.len())?;
        let fetch = as_float(page.bytes) / terms.in_bytes_per_second;
        let fits = uses.iter().all(|used| used.count_ones() as usize <= slots);
        let next = next_uses(&uses, storages.len());
        let seconds = step.operators.iter().map(|operator| operator.duration.as_secs_f64()).collect();
        (fits && fetch > 0.0).then_some(Self { storages, uses, seconds, next, slots, fetch })
    }

    /// Returns the pages that are needed first, as many as the device holds.
    pub(super) fn first(&self) -> u64 {
        let mut order: Vec<_> = (0..self.storages.len()).collect();
        order.sort_by_key(|page| self.next[0][*page]);
        order[..self.slots].iter().fold(0, |set, page| set | 1 << page)
    }

    pub(super) fn all(&self) -> u64 {
        u64::MAX >> (64 - self.storages.len())
    }

    /// Returns the operator that needs a page from operator `at` on. Operators of the next step need the pages with
    /// which that begins.
    fn needed(&self, page: usize, at: usize, kept: u64) -> usize {
        match self.next[at][page] {
            NEVER if kept & (1 << page) != 0 => self.uses.len() + self.next[0][page].min(self.uses.len()),
            next => next,
        }
    }

    /// Returns the missing page that is needed first.
    pub(super) fn missing(&self, inside: u64, at: usize, kept: u64) -> Option<usize> {
        let missing = bits(self.all() & !inside).map(|page| (self.needed(page, at, kept), page));
        missing.min().filter(|(needed, _)| *needed < NEVER).map(|(_, page)| page)
    }

    /// Returns the pages on the device after a page is fetched in place of the one that is needed last. `None` if each of
    /// those is needed sooner than the fetched one.
    pub(super) fn exchanged(&self, inside: u64, at: usize, kept: u64, page: usize) -> Option<u64> {
        let fetched = inside | 1 << page;
        if fetched.count_ones() as usize <= self.slots {
            return Some(fetched);
        }
        let last = bits(inside).map(|page| (self.needed(page, at, kept), page)).max();
        let (_, evicted) = last.filter(|(last, _)| *last > self.needed(page, at, kept))?;
        Some(fetched & !(1 << evicted))
    }

    /// Returns the absences of a step in which these pages are on the device, or on their way, when each operator has
    /// begun.
    pub(super) fn absences(&self, inside: &[u64]) -> Vec<Absence> {
        let operators = self.uses.len();
        let before = |at: usize| (at + operators - 1) % operators;
        let mut absences = Vec::new();
        for at in 0..operators {
            let fetched = inside[at] & !inside[before(at)];
            // Each page is needed again, in the next step at the latest.
            let mut fetched: Vec<_> =
                bits(fetched).map(|page| (self.needed(page, at, u64::MAX), page)).collect();
            fetched.sort_unstable();
            for (used_by, page) in fetched {
                let back = |back: &usize| inside[(at + operators - back) % operators] & (1 << page) != 0;
                let last = (1..=operators).find(back).unwrap_or(operators);
                let leaves_after = (at + operators - last) % operators;
                let back = Some(Back { fetched_at: at, used_by: used_by % operators });
                absences.push(Absence { storage: self.storages[page], leaves_after, back });
            }
        }
        let unused = (0..self.storages.len()).filter(|page| inside.iter().all(|set| set & (1 << page) == 0));
        absences.extend(unused.map(|page| Absence {
            storage: self.storages[page],
            leaves_after: 0,
            back: None,
        }));
        absences
    }
}

/// Returns the first operator that uses each page, from each operator on.
fn next_uses(uses: &[u64], pages: usize) -> Vec<Vec<usize>> {
    let mut next = vec![vec![NEVER; pages]];
    for (at, used) in uses.iter().enumerate().rev() {
        let mut row = next[next.len() - 1].clone();
        bits(*used).for_each(|page| row[page] = at);
        next.push(row);
    }
    next.reverse();
    next
}

pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros() as usize;
        let is_some = set != 0;
        set &= set.wrapping_sub(1);
        is_some.then_some(bit)
    })
}
