//! Holdings of a device when it had no memory for a block.

use std::collections::HashMap;

use super::failure::{Failure, Living};
use super::here;
use super::moments::Moments;
use super::names::NameId;
use super::owner::Owner;
use super::packed::Packed;
use super::shared::{Shared, running};
use crate::holdings::{Category, Holding, Holdings, birth_name};
use crate::lines::LineId;
use crate::operators::short_name;

/// Returns the holdings of a device when the last allocation of this thread failed, or else the last one of another
/// thread since the last attempt of this thread began. They stay available until the thread gets memory or begins
/// another attempt, because a loop around the attempt may fail of the same.
///
/// `named` returns category and name of a block, if they are known. Other blocks are named by the operator and the line
/// of their birth. Blocks from before the attempt are inputs. Blocks of the attempt that are older than the line that
/// failed, its last operator, or the running backward, are activations.
pub fn filled(named: impl Fn(&Living) -> Option<(Category, String)>) -> Option<Holdings> {
    let shared = running()?;
    let read = |failure: &Failure| (holdings(&shared, failure, &named), failure.line);
    let (thread, since) = here::last_attempt()?;
    let (holdings, line) = shared.failures.read(thread, since, read)?;
    here::failed(line);
    Some(holdings)
}

/// Returns the holdings of a device when an allocation failed on any thread, if [`filled`] was never called for the
/// failure and the thread has got no memory since.
pub fn unreported(named: impl Fn(&Living) -> Option<(Category, String)>) -> Option<Holdings> {
    let shared = running()?;
    shared.failures.read_unreported(|failure| holdings(&shared, failure, &named))
}

fn holdings(
    shared: &Shared,
    failure: &Failure,
    named: &impl Fn(&Living) -> Option<(Category, String)>,
) -> Holdings {
    let mut held = Vec::new();
    // Grouped by birth, because naming each block would take longer than all other work.
    let mut born = HashMap::<(Category, Option<Birth>), (u64, usize)>::new();
    for block in &failure.blocks {
        if let Some((category, name)) = named(block) {
            held.push(Holding::new(&name, category, block.bytes));
            continue;
        }
        let birth = Birth::of(shared, block.owner);
        let sum = born.entry((category(shared, block.owner, failure.now), birth)).or_default();
        *sum = (sum.0 + block.bytes, sum.1 + 1);
    }
    held.extend(born.into_iter().map(|((category, birth), (bytes, storages))| {
        let name = birth.map_or_else(|| "older than the recording".to_owned(), |birth| birth.name(shared));
        Holding { storages, ..Holding::new(&name, category, bytes) }
    }));
    if failure.others > 0 {
        held.push(Holding::new("blocks beyond those that are listed", Category::Unknown, failure.others));
    }
    let place = shared.rows.devices().nth(failure.device as usize).map(|(_, place)| place.clone());
    let requesting = Birth { operator: failure.operator, line: failure.line };
    Holdings::new(place.unwrap_or(crate::place::Place::HOST), held)
        .asked(failure.requested, &requesting.name(shared))
}

fn category(shared: &Shared, owner: Owner, now: Moments) -> Category {
    if owner.born(shared.number).is_none() {
        return Category::Input;
    }
    if owner.is_of_optimizer() {
        return Category::OptimizerState;
    }
    let is_before = |moment: u32| owner.moment() < moment;
    if now.attempt.is_some_and(is_before) {
        return Category::Input;
    }
    let mut begins = [Some(now.line), now.operator, now.numbered, now.backward].into_iter().flatten();
    match now.operator {
        _ if begins.any(is_before) => Category::Activation,
        Some(_) => Category::Temporary,
        None => Category::Unknown,
    }
}

/// Operator and line in which a block was born.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Birth {
    operator: NameId,
    line: Option<LineId>,
}

impl Birth {
    /// Returns the birth; `None` if the block is older than the recording.
    fn of(shared: &Shared, owner: Owner) -> Option<Self> {
        let line = owner.born(shared.number)?.line();
        Some(Self { operator: operator(shared, owner).unwrap_or(NameId::NONE), line })
    }

    fn name(self, shared: &Shared) -> String {
        let line = self.line.and_then(|line| shared.known().position(line));
        let operator = self.operator.text().map(short_name);
        birth_name(operator, line).unwrap_or_else(|| "in no line".to_owned())
    }
}

/// Returns the operator in which a block was born, if the ring still has that event.
fn operator(shared: &Shared, owner: Owner) -> Option<NameId> {
    let ring = shared.ring.as_ref()?;
    // The owner has only the lower half of the event's position.
    let (count, half) = (ring.count(), u64::from(owner.moment()));
    let position = (count & !u64::from(u32::MAX)) | half;
    let position = if position < count { position } else { position.checked_sub(1 << 32)? };
    match Packed::read(ring.get(position)?).1 {
        Packed::Born(block) => Some(block.operator),
        _ => None,
    }
}

pub(super) fn origin(shared: &Shared, owner: Owner) -> Option<String> {
    Some(Birth::of(shared, owner)?.name(shared))
}
