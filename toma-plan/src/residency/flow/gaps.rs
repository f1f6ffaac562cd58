//! Gaps between the operators that use a storage, in which it may be evicted.

use super::super::{Step, Storage};

/// Every gap of a step, and the data that follow from the step being repeated.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    pub(super) operators: usize,
    pub(super) rows: Vec<Gap>,
    /// Bytes to copy out for each version; 0 if the host has a copy anyway.
    pub(super) versions: Vec<u64>,
    /// Bytes on the device during each operator if nothing is evicted.
    pub(super) resident: Vec<u64>,
}

/// The operators between two successive uses of a storage, or after its last use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) storage: usize,
    pub(super) bytes: u64,
    /// Operator after which the storage is evicted.
    pub(super) after: usize,
    /// Number of operators that run during the gap, into the next step.
    pub(super) length: usize,
    /// True if the storage is fetched at the end of the gap, false if it is freed there.
    pub(super) comes_back: bool,
    /// The version that is copied out if the storage is evicted in this gap, or in another one since the last write.
    pub(super) version: usize,
}

/// A use or birth of a storage; operator numbers beyond the last operator are in the next step.
#[derive(Clone, Copy, Debug)]
struct Touch {
    operator: usize,
    begins_version: bool,
}

impl Gaps {
    pub(super) fn new(step: &Step) -> Self {
        let operators = step.operators.len();
        let resident = step.resident_bytes();
        let mut gaps = Self { operators, rows: Vec::new(), versions: Vec::new(), resident };
        let mut touches = vec![Vec::new(); step.storages.len()];
        for (operator, row) in step.operators.iter().enumerate() {
            for used in &row.uses {
                touches[used.storage].push(Touch { operator, begins_version: used.writes });
            }
        }
        for (index, (storage, touches)) in step.storages.iter().zip(touches).enumerate() {
            if !storage.stays {
                gaps.add(index, storage, touches);
            }
        }
        gaps
    }

    /// Returns the gaps during an operator, in order.
    pub(super) fn beside(&self, operator: usize) -> impl Iterator<Item = (usize, &Gap)> {
        self.rows.iter().enumerate().filter(move |(_, gap)| gap.is_beside(operator, self.operators))
    }

    fn add(&mut self, index: usize, storage: &Storage, uses: Vec<Touch>) {
        let always = storage.birth.is_none() && storage.death.is_none();
        let is_written = uses.iter().any(|touch| touch.begins_version);
        let Some((touches, end)) = life(storage, uses, self.operators) else {
            self.versions.push(0);
            self.push(index, storage, [0, self.operators + 1], false);
            return;
        };
        if always && !is_written {
            self.versions.push(0);
        }
        for (at, touch) in touches.iter().enumerate() {
            if touch.begins_version {
                self.versions.push(storage.bytes);
            }
            let next = touches.get(at + 1).map(|next| next.operator);
            let comes_back = always || next.is_some();
            self.push(index, storage, [touch.operator, next.unwrap_or(end)], comes_back);
        }
    }

    /// Adds the gap between two operators, unless it is empty.
    fn push(&mut self, index: usize, storage: &Storage, [after, until]: [usize; 2], comes_back: bool) {
        let length = until - after - 1;
        if length > 0 && storage.bytes > 0 {
            self.rows.push(Gap {
                storage: index,
                bytes: storage.bytes,
                after: after % self.operators,
                length,
                comes_back,
                version: self.versions.len() - 1,
            });
        }
    }
}

/// Returns the touches of a storage, beginning with its birth or first write, and the end of the last gap.
/// `None` if nothing touches it.
fn life(storage: &Storage, mut uses: Vec<Touch>, operators: usize) -> Option<(Vec<Touch>, usize)> {
    let made = |operator| Touch { operator, begins_version: true };
    let (first, end) = match (storage.birth, storage.death) {
        (None, None) => {
            let first = uses.iter().position(|touch| touch.begins_version).unwrap_or(0);
            let start = uses.get(first)?.operator;
            (start, start + operators)
        }
        (None, Some(death)) => {
            // The storage can leave after the first operator at the soonest.
            if uses.first().is_some_and(|touch| touch.operator == 0) {
                uses[0].begins_version = true;
            } else {
                uses.insert(0, made(0));
            }
            (0, death.max(1))
        }
        (Some(birth), None) => {
            uses.insert(uses.partition_point(|touch| touch.operator < birth), made(birth));
            (birth, birth + operators)
        }
        (Some(birth), Some(death)) => {
            uses.insert(uses.partition_point(|touch| touch.operator < birth), made(birth));
            (birth, if death <= birth { death + operators } else { death })
        }
    };
    let start = uses.iter().position(|touch| touch.operator == first)?;
    uses.rotate_left(start);
    let earlier = uses.len() - start;
    uses[earlier..].iter_mut().for_each(|touch| touch.operator += operators);
    Some((uses, end))
}

impl Gap {
    /// Returns the operators during the gap: at most two ranges, each without its end.
    pub(super) fn spans(&self, operators: usize) -> [(usize, usize); 2] {
        let from = self.after + 1;
        let to = from + self.length;
        // The gap may begin with the next step.
        if from >= operators {
            return [(from - operators, to - operators), (0, 0)];
        }
        [(from, to.min(operators)), (0, to.saturating_sub(operators))]
    }

    pub(super) fn fetched_bytes(&self) -> u64 {
        if self.comes_back { self.bytes } else { 0 }
    }

    fn is_beside(&self, operator: usize, operators: usize) -> bool {
        self.spans(operators).iter().any(|(from, to)| (*from..*to).contains(&operator))
    }

    /// Returns the operator that ends the gap.
    pub(super) fn until(&self, operators: usize) -> usize {
        (self.after + 1 + self.length) % operators
    }
}
