//! Calls of operators, as they are compared between runs.

use std::collections::{HashMap, HashSet};

use toma_trace::operators::{RowRule, base_name, row_rule};
use toma_trace::{Access, Operand, Operator, StorageId};

use super::path::path;
use super::rules::{is_data, is_near};
use super::tensors::operands;
use crate::alike::SizedTrace;

/// One call of an operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ComparedCall {
    pub(super) name: String,
    tensors: Vec<Shaped>,
    pub(super) integers: Vec<Vec<i64>>,
    pub(super) numbers: Vec<f64>,
    /// True if the program has read a number before, from which these may be computed.
    follows_read: bool,
}

/// A tensor of a call: storages are numbered in order of appearance.
#[derive(Clone, Debug, PartialEq)]
struct Shaped {
    storage: usize,
    position: Position,
    access: Access,
    /// Empty if the shape depends on data, because a mask has selected the elements.
    shape: Vec<i64>,
    wants_gradient: bool,
    origin: Origin,
}

/// Position of a tensor in its storage.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Position {
    /// Number of the offset at which the tensor begins, in order of appearance.
    Offset(usize),
    /// Index among the parts of a split, for data; 0 for data that are not split.
    Part(usize),
}

/// Where a tensor comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    Made,
    /// From data, with their number.
    Data(usize),
    /// From before the forward, with its identity.
    Captured(u64),
}

impl Origin {
    /// True if the tensors play the same role. Whether captured ones are the same is compared within one call.
    fn is_like(self, other: Self) -> bool {
        matches!((self, other), (Self::Captured(_), Self::Captured(_))) || self == other
    }
}

impl Shaped {
    fn is_captured(&self) -> bool {
        matches!(self.origin, Origin::Captured(_))
    }
}

impl ComparedCall {
    /// Returns true if the program itself makes this call. Libraries insert or replace others by the sizes: products and
    /// their biases, reshapes and copies.
    pub(super) fn is_own(&self) -> bool {
        use RowRule::{Attention, BatchProduct, Convolution, Fills, Moves, Product, Reshapes, Spreads};
        let takes_captured = || self.tensors.iter().any(Shaped::is_captured);
        match row_rule(&self.name) {
            Some(Moves) => matches!(
                base_name(&self.name),
                "flip" | "roll" | "diagonal" | "tril" | "triu" | "constant_pad_nd"
            ),
            Some(Product | BatchProduct | Convolution | Attention | Reshapes | Spreads) => false,
            Some(Fills) => !self.numbers.is_empty(),
            _ => match base_name(&self.name) {
                "to" | "_to_copy" | "copy" | "clone" | "contiguous" => false,
                "add" => !takes_captured(),
                _ => true,
            },
        }
    }

    /// Returns true if the call takes a part of a tensor that its arguments choose.
    pub(super) fn takes_part(&self) -> bool {
        matches!(base_name(&self.name), "select" | "slice" | "narrow" | "split" | "split_with_sizes")
    }

    /// Returns the identities of tensors from before the forward that the call takes. Views that it returns do not count:
    /// a split returns all parts, and the body may take one of them.
    pub(super) fn captured(&self) -> impl Iterator<Item = u64> {
        let taken = self.tensors.iter().filter(|tensor| tensor.access != Access::Views);
        taken.filter_map(|tensor| match tensor.origin {
            Origin::Captured(identity) => Some(identity),
            Origin::Made | Origin::Data(_) => None,
        })
    }

    /// Returns the call with all storages and positions replaced by one, so that comparisons ignore them. A copy of
    /// data may be the data themselves where there is only one row.
    pub(super) fn anywhere(&self) -> Self {
        let tensors = self.tensors.iter().map(|tensor| {
            let origin = if tensor.is_captured() { tensor.origin } else { Origin::Made };
            Shaped { storage: 0, position: Position::Offset(0), origin, ..tensor.clone() }
        });
        Self { tensors: tensors.collect(), ..self.clone() }
    }

    pub(super) fn is_at(&self, size: u32, judged: &[Self; 2], sizes: [u32; 2]) -> bool {
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
                    && own.position == one.position
                    && own.access == one.access
                    && own.wants_gradient == one.wants_gradient
                    && own.origin.is_like(one.origin)
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

/// Returns the calls that the result depends on, in order. Other work, such as counting hits, is left out.
pub(super) fn calls(recorded: SizedTrace<'_>) -> Vec<ComparedCall> {
    let operands = operands(recorded);
    let (calls, needs) = path(recorded, &operands);
    let last = calls.first().map(|(id, _)| *id);
    let read = recorded.operators().find(|(_, operator)| operator.name.ends_with("_local_scalar_dense"));
    let mut numbering = Numbering::default();
    let cuts = recorded.operators().filter(|(_, operator)| is_data(operator, recorded.trace));
    let mut data = Vec::new();
    for operand in cuts.flat_map(|(id, _)| &operands[id.index()]) {
        if !data.contains(&operand.storage) {
            data.push(operand.storage);
        }
    }
    let made = operands.iter().flatten().filter(|operand| operand.access == Access::Makes);
    let made: HashSet<_> = made.map(|operand| operand.storage).collect();
    let origin = |operand: &Operand| {
        let mut blocks = recorded.trace[operand.storage].blocks.iter();
        let mut is_from_before =
            || blocks.all(|block| block.birth.is_none()) && !made.contains(&operand.storage);
        match data.iter().position(|storage| *storage == operand.storage) {
            Some(number) => Origin::Data(number),
            None if is_from_before() => Origin::Captured(operand.identity),
            None => Origin::Made,
        }
    };
    let calls = calls.into_iter().rev().map(|(id, operator)| {
        let operands = &operands[id.index()];
        numbering.select(operator, operands);
        // Workspaces that nothing reads have sizes of their own.
        let is_used = |operand: &&&Operand| {
            operand.access != Access::Makes || needs.storages.contains(&operand.storage) || Some(id) == last
        };
        let used = operands.iter().filter(is_used);
        let tensors = used.map(|operand| numbering.shaped(operand, origin(operand))).collect();
        // Afterwards, because a split may take a part of another one.
        numbering.divide(operands);
        ComparedCall {
            name: operator.name.clone(),
            tensors,
            integers: integers(operator),
            numbers: numbers(operator),
            follows_read: read.is_some_and(|(read, _)| read < id),
        }
    });
    calls.collect()
}

/// Returns hashes of the numbers that the program wrote itself and the result depends on, in no order of the calls.
pub(super) fn written(recorded: SizedTrace<'_>) -> Vec<u64> {
    let operands = operands(recorded);
    let (calls, _) = path(recorded, &operands);
    let all = calls.iter().flat_map(|(id, _)| &operands[id.index()]);
    let mut hashes: Vec<_> = all.filter_map(|operand| operand.written_by_host).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Returns the tensors from before the forward that are no data, in the order in which they are taken first.
pub(super) fn identities(calls: &[ComparedCall]) -> Vec<u64> {
    let mut known = HashSet::new();
    let all = calls.iter().flat_map(ComparedCall::captured);
    all.filter(|identity| known.insert(*identity)).collect()
}

/// Numbers storages and positions in them the same way in all runs.
#[derive(Default)]
struct Numbering {
    storages: HashMap<StorageId, usize>,
    offsets: HashMap<Beginning, usize>,
    /// Index of each part among the results of the call that split its tensor last.
    parts: HashMap<Beginning, usize>,
    /// Storages made of elements that a mask has selected.
    selected: HashSet<StorageId>,
}

/// A storage, and the [identity](Operand::identity) of tensors that begin at one place in it.
type Beginning = (StorageId, u64);

fn beginning(operand: &Operand) -> Beginning {
    (operand.storage, operand.identity)
}

impl Numbering {
    /// Notes the parts that a call such as `split` or `unbind` returns.
    fn divide(&mut self, operands: &[&Operand]) {
        let parts: Vec<_> = operands.iter().filter(|operand| operand.access == Access::Views).collect();
        if parts.len() > 1 {
            self.parts.extend(parts.into_iter().enumerate().map(|(at, part)| (beginning(part), at)));
        }
    }

    /// Returns the position of a tensor in its storage. Each piece of the data begins at another offset, where a tensor
    /// that the body captures may begin, too. So offsets of data are not numbered, only parts are.
    fn position(&mut self, operand: &Operand, origin: Origin) -> Position {
        let (beginning, next) = (beginning(operand), self.offsets.len());
        match origin {
            Origin::Data(_) => Position::Part(self.parts.get(&beginning).copied().unwrap_or_default()),
            Origin::Made | Origin::Captured(_) => {
                Position::Offset(*self.offsets.entry(beginning).or_insert(next))
            }
        }
    }

    fn select(&mut self, operator: &Operator, operands: &[&Operand]) {
        let mut reads = operands.iter().filter(|operand| operand.access == Access::Reads);
        let is_selected = operator.name.ends_with("::masked_select")
            || reads.any(|operand| self.selected.contains(&operand.storage));
        let results = operands.iter().filter(|operand| is_selected && operand.access != Access::Reads);
        self.selected.extend(results.map(|operand| operand.storage));
    }

    fn shaped(&mut self, operand: &Operand, origin: Origin) -> Shaped {
        let next = self.storages.len();
        let storage = *self.storages.entry(operand.storage).or_insert(next);
        let position = self.position(operand, origin);
        let is_known = !self.selected.contains(&operand.storage);
        let shape = operand.shape.iter().filter(|_| is_known).map(|&size| size.cast_signed()).collect();
        let Operand { access, wants_gradient, .. } = *operand;
        Shaped { storage, position, access, shape, wants_gradient, origin }
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
