//! The program of a judged step, for comparison with the operators that a call runs.

use std::collections::{HashMap, HashSet};

use toma_trace::operators::{RowRule, base_name, row_rule};
use toma_trace::{Access, Block, Operand, Operator, OperatorId, StorageId, Trace};

use super::forward::{adds_gradients, forwards};
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
    /// True if a backward within the forward adds to gradients.
    adds_gradients: bool,
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
    wants_gradient: bool,
    /// Of a tensor from before the forward; 0 for data and for others.
    identity: u64,
}

impl Shaped {
    fn is_captured(&self) -> bool {
        self.identity != 0
    }
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
        let (sizes, adds_gradients) = (traces.map(|(size, _)| size), adds_gradients(traces[1].1));
        Ok(Self { rows, sizes, calls, adds_gradients })
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
            && self.adds_gradients == adds_gradients(trace)
            && calls.iter().zip(&self.calls).all(|(call, judged)| call.is_at(size, judged, self.sizes))
    }

    /// True if two traces of the judged program take the same tensors from before the forward, and the same numbers,
    /// except for numbers that change with the rows. Among few items, only numbers of calls that the program makes
    /// [itself](ComparedCall::is_own) are compared.
    #[must_use]
    pub fn takes_same(&self, traces: [&Trace; 2], is_few: bool) -> bool {
        let [one, other] = traces.map(|trace| calls(Recorded { size: 1, trace, until: trace.end() }));
        if identities(&one) != identities(&other) {
            return false;
        }
        let is_compared = |call: &ComparedCall| !is_few || call.is_own();
        let [one, other] = [&one, &other].map(|calls| calls.iter().filter(|call| is_compared(call)));
        let numbers = |[one, other]: [&ComparedCall; 2]| {
            let pairs = one.numbers.iter().zip(&other.numbers);
            pairs.map(|(one, other)| one.to_bits() == other.to_bits()).collect::<Vec<_>>()
        };
        let judged = self.calls.iter().filter(|[call, _]| is_compared(call));
        one.zip(other).zip(judged).all(|((one, other), [small, large])| {
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

    /// True if a trace of the forward of a few items may be of the judged program. For so few, libraries choose other
    /// products and other copies; all that the program calls [itself](ComparedCall::is_own) must be the judged.
    #[must_use]
    pub fn is_of_few(&self, size: u32, trace: &Trace) -> bool {
        let calls = calls(Recorded { size, trace, until: trace.end() });
        let calls: Vec<_> = calls.iter().filter(|call| call.is_own()).collect();
        let judged: Vec<_> = self.calls.iter().filter(|[call, _]| call.is_own()).collect();
        let is_at = |(own, [one, other]): (&&ComparedCall, &&[ComparedCall; 2])| {
            own.anywhere().is_at(size, &[one.anywhere(), other.anywhere()], self.sizes)
        };
        calls.len() == judged.len()
            && self.adds_gradients == adds_gradients(trace)
            && calls.iter().zip(&judged).all(is_at)
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
    /// False for what libraries put into a program or choose by its sizes: products, other orders and copies.
    fn is_own(&self) -> bool {
        use RowRule::{Attention, BatchProduct, Convolution, Fills, Moves, Product, Reshapes, Spreads};
        match row_rule(&self.name) {
            Some(Product | BatchProduct | Convolution | Attention | Reshapes | Moves | Spreads) => false,
            Some(Fills) => !self.numbers.is_empty(),
            _ => !matches!(base_name(&self.name), "to" | "_to_copy" | "copy" | "clone" | "contiguous"),
        }
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
                    && own.wants_gradient == one.wants_gradient
                    && own.is_captured() == one.is_captured()
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

/// Returns the first call that writes to a tensor from before the forward on which the result depends, or to data that
/// overlap. Statistics of batch norm are judged separately, if nothing else reads them.
pub(super) fn changed<'c>(calls: &'c [Twin<'_>], recorded: Recorded<'_>) -> Option<Coupled> {
    let (_, needs) = path(recorded, &operands(recorded));
    let mut made = HashSet::new();
    let normalizes = |twin: &Twin<'_>| is_training(twin.operators[1]);
    let of = |twin: &'c Twin<'_>, access| twin.tensors.iter().filter(move |one| one.operand.access == access);
    let constants = |twin: &'c Twin<'_>| twin.tensors.iter().filter(|tensor| tensor.batch == Batch::None);
    let normalized: Vec<_> = calls.iter().filter(|twin| normalizes(twin)).flat_map(constants).collect();
    made.extend(normalized.iter().map(|tensor| tensor.operand.storage));
    let is_statistic =
        |one: &&&Tensor<'_>| one.operand.access == Access::Reads && !one.operand.wants_gradient;
    let statistics: HashSet<_> =
        normalized.iter().filter(is_statistic).map(|tensor| tensor.operand.storage).collect();
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
    let is_taken = |(id, operator): &(OperatorId, &Operator)| {
        let is_last = Some(*id) == last;
        (is_last || !is_alias(&operator.name)) && needs.take(&operands[id.index()], is_last)
    };
    let taken: Vec<bool> = calls.iter().map(is_taken).collect();
    // What is written after its last use is used by the next piece.
    let writes =
        |operand: &&Operand| operand.access == Access::Writes && needs.storages.contains(&operand.storage);
    let mut taken = taken.into_iter();
    calls.retain(|(id, _)| taken.next() == Some(true) || operands[id.index()].iter().any(writes));
    (calls, needs)
}

/// Returns the calls that the result depends on, in order. Other work, such as counting hits, is left out.
fn calls(recorded: Recorded<'_>) -> Vec<ComparedCall> {
    let operands = operands(recorded);
    let (calls, needs) = path(recorded, &operands);
    let last = calls.first().map(|(id, _)| *id);
    let read = recorded.operators().find(|(_, operator)| operator.name.ends_with("_local_scalar_dense"));
    let mut numbering = Numbering::default();
    let cuts = recorded.operators().filter(|(_, operator)| is_data(operator, recorded.trace));
    let data: HashSet<_> =
        cuts.flat_map(|(id, _)| &operands[id.index()]).map(|operand| operand.storage).collect();
    let is_captured = |operand: &Operand| {
        let blocks = &recorded.trace[operand.storage].blocks;
        let is_from_before = |block: &Block| block.birth.is_none() && block.bytes > 0;
        blocks.first().is_some_and(is_from_before) && !data.contains(&operand.storage)
    };
    let calls = calls.into_iter().rev().map(|(id, operator)| {
        let operands = &operands[id.index()];
        numbering.select(operator, operands);
        // Workspaces that nothing reads have sizes of their own.
        let is_used = |operand: &&&Operand| {
            operand.access != Access::Makes || needs.storages.contains(&operand.storage) || Some(id) == last
        };
        ComparedCall {
            name: operator.name.clone(),
            tensors: operands
                .iter()
                .filter(is_used)
                .map(|operand| numbering.shaped(operand, is_captured(operand)))
                .collect(),
            integers: integers(operator),
            numbers: numbers(operator),
            follows_read: read.is_some_and(|(read, _)| read < id),
        }
    });
    calls.collect()
}

/// Returns the tensors from before the forward that are no data, in the order in which they are taken first.
fn identities(calls: &[ComparedCall]) -> Vec<u64> {
    let mut known = HashSet::from([0]);
    let all = calls.iter().flat_map(|call| &call.tensors).map(|tensor| tensor.identity);
    all.filter(|identity| known.insert(*identity)).collect()
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

    fn shaped(&mut self, operand: &Operand, is_captured: bool) -> Shaped {
        let next = self.storages.len();
        let storage = *self.storages.entry(operand.storage).or_insert(next);
        let is_known = !self.selected.contains(&operand.storage);
        let shape = operand.shape.iter().filter(|_| is_known).map(|&size| size.cast_signed()).collect();
        let identity = if is_captured { operand.identity } else { 0 };
        Shaped { storage, access: operand.access, shape, wants_gradient: operand.wants_gradient, identity }
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
