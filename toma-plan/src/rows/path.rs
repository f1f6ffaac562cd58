//! The operators that a result depends on.

use std::collections::HashSet;

use toma_trace::operators::base_name;
use toma_trace::{Access, Operand, Operator, OperatorId, StorageId};

use super::rules::{is_data, is_training};
use super::tensors::{Batch, Tensor, Twin, operands};
use super::{Coupled, Coupling};
use crate::alike::SizedTrace;

/// Returns the first call that writes to a tensor from before the forward on which the result depends, or to data that
/// overlap. Statistics of batch norm are judged separately, if nothing else reads them.
pub(super) fn changed<'c>(calls: &'c [Twin<'_>], recorded: SizedTrace<'_>) -> Option<Coupled> {
    let (_, needs) = path(recorded, &operands(recorded));
    let mut made = HashSet::new();
    let normalizes = |twin: &Twin<'_>| is_training(twin.operators[1]);
    let of = |twin: &'c Twin<'_>, access| twin.tensors.iter().filter(move |one| one.operand.access == access);
    let constants = |twin: &'c Twin<'_>| twin.tensors.iter().filter(|tensor| tensor.batch == Batch::None);
    let by_batch_norm: Vec<_> = calls.iter().filter(|twin| normalizes(twin)).flat_map(constants).collect();
    made.extend(by_batch_norm.iter().map(|tensor| tensor.operand.storage));
    let is_statistic =
        |one: &&&Tensor<'_>| one.operand.access == Access::Reads && !one.operand.wants_gradient;
    let statistics: HashSet<_> =
        by_batch_norm.iter().filter(is_statistic).map(|tensor| tensor.operand.storage).collect();
    // Tensors that the body has as a whole, of which a view may have as many rows as the data.
    let cuts = |twin: &&Twin<'_>| is_data(twin.operators[1], recorded.trace);
    let of_body = calls.iter().filter(|twin| !cuts(twin)).flat_map(|twin| &twin.tensors);
    let whole = of_body.filter(|tensor| tensor.batch == Batch::None);
    // Without cuts of data, rows may be a view of the data themselves.
    let is_cut = calls.iter().any(|twin| cuts(&twin));
    let whole: HashSet<_> = whole.filter(|_| is_cut).map(|tensor| tensor.operand.storage).collect();
    let mut cut = HashSet::new();
    let data = calls.iter().filter(cuts).flat_map(|twin| of(twin, Access::Reads));
    let overlapping: HashSet<_> =
        data.map(|tensor| tensor.operand.storage).filter(|storage| !cut.insert(*storage)).collect();
    let changes = |twin: &&'c Twin<'_>| {
        made.extend(of(twin, Access::Makes).map(|tensor| tensor.operand.storage));
        let is_needed = |storage| needs.storages.contains(&storage) && !made.contains(&storage);
        let is_captured = |one: &Tensor<'_>| one.batch == Batch::None || whole.contains(&one.operand.storage);
        let mut written = of(twin, Access::Writes);
        let is_changed = |one: &Tensor<'_>| {
            let storage = one.operand.storage;
            is_captured(one) && is_needed(storage) || overlapping.contains(&storage)
        };
        let reads_statistics =
            || of(twin, Access::Reads).any(|one| statistics.contains(&one.operand.storage));
        written.any(is_changed) || !normalizes(twin) && reads_statistics()
    };
    calls.iter().find(changes).map(|twin| twin.coupled(Coupling::ChangesConstant))
}

/// Returns the operators that the result depends on, from the last to the first, and the tensors that they take.
pub(super) fn path<'a>(
    recorded: SizedTrace<'a>,
    operands: &[Vec<&'a Operand>],
) -> (Vec<(OperatorId, &'a Operator)>, NeededTensors<'a>) {
    let mut needs = NeededTensors::default();
    // The whole batch has other sizes from call to call.
    let mut calls: Vec<_> =
        recorded.operators().filter(|(_, operator)| !is_data(operator, recorded.trace)).collect();
    let last = calls.last().map(|(id, _)| *id);
    calls.reverse();
    // Aliases compute nothing. A body that logs outputs may detach them, except in a dry run.
    let is_alias = |name: &str| matches!(base_name(name), "detach" | "alias");
    let is_taken = |(id, operator): &(OperatorId, &Operator)| {
        let is_last = Some(*id) == last;
        (is_last || !is_alias(&operator.name)) && needs.take(&operands[id.index()], is_last)
    };
    let taken: Vec<bool> = calls.iter().map(is_taken).collect();
    // A write after the last use changes the next piece.
    let writes =
        |operand: &&Operand| operand.access == Access::Writes && needs.storages.contains(&operand.storage);
    let mut taken = taken.into_iter();
    calls.retain(|(id, _)| taken.next() == Some(true) || operands[id.index()].iter().any(writes));
    (calls, needs)
}

/// Storages and views that later calls take.
#[derive(Default)]
pub(super) struct NeededTensors<'a> {
    pub(super) storages: HashSet<StorageId>,
    views: HashSet<(StorageId, &'a [u64])>,
}

impl<'a> NeededTensors<'a> {
    /// True if a call makes a needed tensor; then the tensors that it takes are needed, too.
    fn take(&mut self, operands: &[&'a Operand], is_last: bool) -> bool {
        let makes = operands.iter().any(|operand| match operand.access {
            Access::Reads => false,
            Access::Views => self.views.contains(&(operand.storage, &*operand.shape)),
            Access::Makes | Access::Writes => self.storages.contains(&operand.storage),
        });
        if makes || is_last {
            let reads =
                operands.iter().filter(|operand| matches!(operand.access, Access::Reads | Access::Writes));
            for operand in reads {
                self.storages.insert(operand.storage);
                self.views.insert((operand.storage, &operand.shape));
            }
        }
        makes || is_last
    }
}
