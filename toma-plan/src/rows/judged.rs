//! The program of a judged step, for comparison with the operators that a call runs.

use std::collections::{HashMap, HashSet};

use toma_trace::operators::{RowRule, base_name, row_rule};
use toma_trace::{Access, Operand, Operator, OperatorId, StorageId, Trace};

use super::forward::forwards;
use super::rules::{is_data, is_near, is_training};
use super::tensors::{Batch, Tensor, Twin, operands};
use super::{Coupled, Coupling, Rows};
use crate::alike::{Recorded, Unlike};

/// A verdict with the operators that it is about.
///
/// A verdict holds for one program. So it is compared with the operators of a real run before it is used: their names,
/// tensors, shapes and arguments. Numbers that were the same at both sizes may have changed since, as a weight that is
/// annealed.
#[derive(Clone, Debug)]
pub struct Judged {
    rows: Rows,
    sizes: [u32; 2],
    calls: Vec<[ComparedCall; 2]>,
}

/// One call of an operator.
#[derive(Clone, Debug, PartialEq)]
struct ComparedCall {
    name: String,
    tensors: Vec<Shaped>,
    integers: Vec<Vec<i64>>,
    numbers: Vec<f64>,
    /// True if the program has read a number before, from which these may be computed.
    follows_read: bool,
}

/// A tensor of a call: storages are numbered in order of appearance.
#[derive(Clone, Debug, PartialEq)]
struct Shaped {
    storage: usize,
    access: Access,
    /// Empty if the shape depends on data, because a mask has selected the elements.
    shape: Vec<i64>,
}

impl Judged {
    /// Computes the verdict of two traces, as [`Rows::of`].
    ///
    /// # Errors
    ///
    /// Errors of [`Rows::of`].
    pub fn of(traces: [(u32, &Trace); 2]) -> Result<Self, Unlike> {
        let rows = Rows::of(traces)?;
        let [first, second] = forwards(traces).map(calls);
        let calls = first.into_iter().zip(second).map(|(one, other)| [one, other]).collect();
        Ok(Self { rows, sizes: traces.map(|(size, _)| size), calls })
    }

    /// Returns the verdict.
    #[must_use]
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// True if a trace of the forward of `size` items is of the judged program.
    #[must_use]
    pub fn is_of(&self, size: u32, trace: &Trace) -> bool {
        let whole = Recorded { size, trace, until: trace.end() };
        let calls = calls(whole);
        calls.len() == self.calls.len()
            && calls.iter().zip(&self.calls).all(|(call, judged)| call.is_at(size, judged, self.sizes))
    }

    /// True if two traces of the judged program have the same numbers, except for numbers that change with the rows.
    #[must_use]
    pub fn has_same_numbers(&self, traces: [&Trace; 2]) -> bool {
        let [one, other] = traces.map(|trace| calls(Recorded { size: 1, trace, until: trace.end() }));
        let numbers = |[one, other]: [&ComparedCall; 2]| {
            let pairs = one.numbers.iter().zip(&other.numbers);
            pairs.map(|(one, other)| one.to_bits() == other.to_bits()).collect::<Vec<_>>()
        };
        one.iter().zip(&other).zip(&self.calls).all(|((one, other), [small, large])| {
            let (here, judged) = (numbers([one, other]), numbers([small, large]));
            here.iter().zip(judged).all(|(is_same, was_same)| *is_same || !was_same)
        })
    }

    /// True if two traces of the forward of equally many items are of one program.
    #[must_use]
    pub fn is_same(traces: [&Trace; 2]) -> bool {
        let [one, other] = traces.map(|trace| calls(Recorded { size: 1, trace, until: trace.end() }));
        one == other
    }

    /// True if the operators of a trace that reduce rows are the judged ones, in the same shapes. For a few items,
    /// libraries choose other operators, but not other reductions.
    #[must_use]
    pub fn reduces_alike(&self, size: u32, trace: &Trace) -> bool {
        let calls = calls(Recorded { size, trace, until: trace.end() });
        let own: Vec<_> = calls.iter().filter(|call| call.reduces()).map(ComparedCall::anywhere).collect();
        let judged: Vec<_> = self.calls.iter().filter(|[call, _]| call.reduces()).collect();
        let is_at = |(own, [one, other]): (&ComparedCall, &&[ComparedCall; 2])| {
            own.is_at(size, &[one.anywhere(), other.anywhere()], self.sizes)
        };
        own.len() == judged.len() && own.iter().zip(&judged).all(is_at)
    }

    /// True if the program has a mean of losses over classes, which may leave labels out.
    #[must_use]
    pub fn averages_classes(&self) -> bool {
        // The reduction is the first of their integers.
        let averages = |call: &ComparedCall| call.integers.first().is_none_or(|reduction| *reduction == [1]);
        let is_of_classes = |call: &ComparedCall| row_rule(&call.name) == Some(RowRule::ClassLoss);
        self.calls.iter().any(|[call, _]| is_of_classes(call) && averages(call))
    }

    /// True if a number of the program changes with the rows. At a single size such a number may match by chance, so a
    /// run is not recognized by it.
    #[must_use]
    pub fn counts_rows(&self) -> bool {
        self.calls.iter().any(|[one, other]| one.numbers != other.numbers)
    }
}

impl ComparedCall {
    fn reduces(&self) -> bool {
        use RowRule::{AlongDim, Averages, ClassLoss, Loss, Sums};
        matches!(row_rule(&self.name), Some(Sums | Averages | AlongDim | Loss | ClassLoss))
    }

    /// Returns the call with all storages replaced by one, so that comparisons ignore them.
    fn anywhere(&self) -> Self {
        let tensors = self.tensors.iter().map(|tensor| Shaped { storage: 0, ..tensor.clone() });
        Self { tensors: tensors.collect(), ..self.clone() }
    }

    fn is_at(&self, size: u32, judged: &[Self; 2], sizes: [u32; 2]) -> bool {
        let at = |one: i64, other: i64| {
            let [small, large, size] = [sizes[0], sizes[1], size].map(i64::from);
            one + (other - one) * (size - small) / (large - small)
        };
        let lists = |own: &[i64], one: &[i64], other: &[i64]| {
            own.len() == one.len()
                && own.len() == other.len()
                && own.iter().zip(one).zip(other).all(|((own, one), other)| *own == at(*one, *other))
        };
        let [one, other] = judged;
        let tensors = || {
            let judged = one.tensors.iter().zip(&other.tensors);
            self.tensors.iter().zip(judged).all(|(own, (one, other))| {
                own.storage == one.storage
                    && own.access == one.access
                    && lists(&own.shape, &one.shape, &other.shape)
            })
        };
        let integers = || {
            let judged = one.integers.iter().zip(&other.integers);
            self.integers.iter().zip(judged).all(|(own, (one, other))| lists(own, one, other))
        };
        let numbers = || {
            let judged = one.numbers.iter().zip(&other.numbers);
            self.numbers
                .iter()
                .zip(judged)
                .all(|(own, (one, other))| is_number_at(*own, [*one, *other], size, sizes, self.follows_read))
        };
        self.name == one.name
            && self.tensors.len() == one.tensors.len()
            && self.integers.len() == one.integers.len()
            && self.numbers.len() == one.numbers.len()
            && tensors()
            && integers()
            && numbers()
    }
}

/// True if a number may be the judged one. A number that was the same at both sizes may have changed since, but not to
/// one that looks like a number of rows, because that may be the same only by chance.
fn is_number_at(own: f64, [one, other]: [f64; 2], size: u32, sizes: [u32; 2], follows_read: bool) -> bool {
    let [small, large, size] = [sizes[0], sizes[1], size].map(f64::from);
    let is_simple = |number: f64| (1..=16).any(|times| is_near(number.abs(), f64::from(times)));
    if own.to_bits() == one.to_bits() && own.to_bits() == other.to_bits() {
        true
    } else if one.to_bits() == other.to_bits() {
        !follows_read && !is_simple(own * size) && !is_simple(own / size)
    } else if is_near(one * large, other * small) {
        is_near(own * small, one * size)
    } else {
        is_near(one * small, other * large) && is_near(own * size, one * small)
    }
}

/// Returns the first call that writes to a tensor from before the forward on which the result depends. Statistics of
/// batch norm are judged separately.
pub(super) fn changed<'c>(calls: &'c [Twin<'_>], recorded: Recorded<'_>) -> Option<Coupled> {
    let (_, needs) = path(recorded, &operands(recorded));
    let mut made = HashSet::new();
    let normalizes = |twin: &Twin<'_>| is_training(twin.operators[1]);
    let of = |twin: &'c Twin<'_>, access| twin.tensors.iter().filter(move |one| one.operand.access == access);
    made.extend(calls.iter().filter(|twin| normalizes(twin)).flat_map(|twin| {
        let statistics = twin.tensors.iter().filter(|tensor| tensor.batch == Batch::None);
        statistics.map(|tensor| tensor.operand.storage)
    }));
    // Tensors that the body has as a whole, of which a view may have as many rows as the data.
    let cuts = |twin: &&Twin<'_>| is_data(twin.operators[1], recorded.trace);
    let of_body = calls.iter().filter(|twin| !cuts(twin)).flat_map(|twin| &twin.tensors);
    let whole = of_body.filter(|tensor| tensor.batch == Batch::None);
    // Without cuts of data, rows may be a view of the data themselves.
    let is_cut = calls.iter().any(|twin| cuts(&twin));
    let whole: HashSet<_> = whole.filter(|_| is_cut).map(|tensor| tensor.operand.storage).collect();
    let changes = |twin: &&'c Twin<'_>| {
        made.extend(of(twin, Access::Makes).map(|tensor| tensor.operand.storage));
        let is_needed = |storage| needs.storages.contains(storage) && !made.contains(storage);
        let is_captured = |one: &Tensor<'_>| one.batch == Batch::None || whole.contains(&one.operand.storage);
        of(twin, Access::Writes).any(|one| is_captured(one) && is_needed(&one.operand.storage))
    };
    let twin = calls.iter().find(changes)?;
    let name = twin.operators[1].name.clone();
    Some(Coupled { operator: twin.id, name, coupling: Coupling::ChangesConstant })
}

/// Returns the operators that the result depends on, from the last to the first, and the tensors that they take.
fn path<'a>(
    recorded: Recorded<'a>,
    operands: &[Vec<&'a Operand>],
) -> (Vec<(OperatorId, &'a Operator)>, Needs<'a>) {
    let mut needs = Needs::default();
    // The whole batch has other sizes from call to call.
    let mut calls: Vec<_> =
        recorded.operators().filter(|(_, operator)| !is_data(operator, recorded.trace)).collect();
    let last = calls.last().map(|(id, _)| *id);
    calls.reverse();
    // Aliases compute nothing. A body that logs outputs may detach them, except in a dry run.
    let is_alias = |name: &str| matches!(base_name(name), "detach" | "alias");
    calls.retain(|(id, operator)| {
        let is_last = Some(*id) == last;
        (is_last || !is_alias(&operator.name)) && needs.take(&operands[id.index()], is_last)
    });
    (calls, needs)
}

/// Returns the calls that the result depends on, in order. Other work, such as counting hits, is left out.
fn calls(recorded: Recorded<'_>) -> Vec<ComparedCall> {
    let operands = operands(recorded);
    let (calls, needs) = path(recorded, &operands);
    let last = calls.first().map(|(id, _)| *id);
    let read = recorded.operators().find(|(_, operator)| operator.name.ends_with("_local_scalar_dense"));
    let mut numbering = Numbering::default();
    let calls = calls.into_iter().rev().map(|(id, operator)| {
        let operands = &operands[id.index()];
        numbering.select(operator, operands);
        // Workspaces that nothing reads have sizes of their own.
        let is_used = |operand: &&&Operand| {
            operand.access != Access::Makes || needs.storages.contains(&operand.storage) || Some(id) == last
        };
        ComparedCall {
            name: operator.name.clone(),
            tensors: operands.iter().filter(is_used).map(|operand| numbering.shaped(operand)).collect(),
            integers: integers(operator),
            numbers: numbers(operator),
            follows_read: read.is_some_and(|(read, _)| read < id),
        }
    });
    calls.collect()
}

/// Numbers storages the same way in all runs.
#[derive(Default)]
struct Numbering {
    storages: HashMap<StorageId, usize>,
    /// Storages made of elements that a mask has selected.
    selected: HashSet<StorageId>,
}

impl Numbering {
    fn select(&mut self, operator: &Operator, operands: &[&Operand]) {
        let mut reads = operands.iter().filter(|operand| operand.access == Access::Reads);
        let is_selected = operator.name.ends_with("::masked_select")
            || reads.any(|operand| self.selected.contains(&operand.storage));
        let results = operands.iter().filter(|operand| is_selected && operand.access != Access::Reads);
        self.selected.extend(results.map(|operand| operand.storage));
    }

    fn shaped(&mut self, operand: &Operand) -> Shaped {
        let next = self.storages.len();
        let storage = *self.storages.entry(operand.storage).or_insert(next);
        let is_known = !self.selected.contains(&operand.storage);
        let shape = operand.shape.iter().filter(|_| is_known).map(|&size| size.cast_signed()).collect();
        Shaped { storage, access: operand.access, shape }
    }
}

/// Storages and views that later calls take.
#[derive(Default)]
struct Needs<'a> {
    storages: HashSet<StorageId>,
    views: HashSet<(StorageId, &'a [u64])>,
}

impl<'a> Needs<'a> {
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

/// Returns the integer arguments, without the marks of the schema and without integers that are also listed as numbers.
fn integers(operator: &Operator) -> Vec<Vec<i64>> {
    let is_number = |name: &str| operator.numbers.iter().any(|number| number.name == name);
    let given =
        operator.attributes.iter().filter(|given| given.name != "pointwise" && !is_number(&given.name));
    given.map(|given| given.values.clone()).collect()
}

fn numbers(operator: &Operator) -> Vec<f64> {
    operator.numbers.iter().map(toma_trace::Number::value).collect()
}
