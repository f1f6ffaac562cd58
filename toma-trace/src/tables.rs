//! The four tables of a trace.

use std::fmt;
use std::ops::Index;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::operators::short_name;
use crate::place::Place;
use crate::tick::Tick;

/// The record of a step: storages, operators, uses and scopes, on one clock.
///
/// Only a [`Recorder`](crate::Recorder) makes one, so it holds no contradiction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace(pub(crate) Tables);

/// The rows of a trace, which are sound only inside of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tables {
    /// The tick of the last event, which follows from the rows.
    #[serde(skip)]
    pub(crate) end: Tick,
    pub(crate) storages: Vec<Storage>,
    pub(crate) operators: Vec<Operator>,
    pub(crate) uses: Vec<Use>,
    pub(crate) scopes: Vec<Scope>,
}

/// A thread of the program, by a number that the recording program chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadId(pub u64);

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.0)
    }
}

/// Defines the number of a row in its table.
macro_rules! id {
    ($(#[$doc:meta])* $id:ident: $table:ident of $row:ty, $noun:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $id(pub(crate) usize);

        impl $id {
            /// Returns the number of the row, from 0.
            #[must_use]
            pub fn index(self) -> usize {
                self.0
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($noun, " {}"), self.0)
            }
        }

        /// # Panics
        ///
        /// If the id is of another trace and this one has no such row.
        impl Index<$id> for Trace {
            type Output = $row;

            fn index(&self, id: $id) -> &$row {
                &self.0.$table[id.0]
            }
        }

        impl Trace {
            /// Returns the rows of this table with their ids, in the order in which they were recorded.
            pub fn $table(&self) -> impl ExactSizeIterator<Item = ($id, &$row)> + DoubleEndedIterator {
                self.0.$table.iter().enumerate().map(|(index, row)| ($id(index), row))
            }
        }
    };
}

id! {
    /// Identifies a [`Storage`] of one trace.
    StorageId: storages of Storage, "storage"
}
id! {
    /// Identifies an [`Operator`] of one trace.
    OperatorId: operators of Operator, "operator"
}
id! {
    /// Identifies a [`Scope`] of one trace.
    ScopeId: scopes of Scope, "scope"
}

impl Trace {
    /// Returns every use of a storage by an operator, in the order of their ticks.
    #[must_use]
    pub fn uses(&self) -> &[Use] {
        &self.0.uses
    }

    /// Returns the tick of the last event: [`Tick::START`] if there was none.
    #[must_use]
    pub fn end(&self) -> Tick {
        self.0.end
    }

    /// Returns every block with its storage: storage by storage, each in the order of its births.
    pub fn blocks(&self) -> impl Iterator<Item = (StorageId, &Block)> {
        self.storages().flat_map(|(id, storage)| storage.blocks.iter().map(move |block| (id, block)))
    }
}

/// Memory shared by tensors and their views: one block, or several one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Storage {
    /// Blocks in the order of their births; at most the last is alive.
    pub blocks: Vec<Block>,
}

/// Memory that a storage holds or held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Block {
    /// Size in bytes.
    pub bytes: u64,
    /// The memory that holds the block.
    pub place: Place,
    /// `None` if the block existed before the trace.
    pub birth: Option<Moment>,
    /// `None` if the block exists after the trace.
    pub death: Option<Moment>,
    /// The innermost operator of its thread when it was born, if there was one.
    pub operator: Option<OperatorId>,
}

impl Block {
    /// Returns true if the block exists just after the event of that tick.
    #[must_use]
    pub fn is_alive(&self, at: Tick) -> bool {
        self.birth.is_none_or(|birth| birth.tick <= at) && self.death.is_none_or(|death| at < death.tick)
    }
}

/// Tick and thread of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Moment {
    /// Tick of the event.
    pub tick: Tick,
    /// Thread of the event.
    pub thread: ThreadId,
}

/// Begin and end of an operator or a scope, on one thread.
///
/// Intervals that had not ended with the trace end at its last ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Interval {
    /// The tick at which it began.
    pub begin: Tick,
    /// The tick at which it ended.
    pub end: Tick,
    /// The thread of both ticks.
    pub thread: ThreadId,
}

impl Interval {
    /// Returns true if the interval has begun and not ended just after the event of that tick.
    #[must_use]
    pub fn contains(&self, tick: Tick) -> bool {
        self.begin <= tick && tick < self.end
    }
}

/// A call into the tensor library that did work of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Operator {
    /// The library's name of the operator.
    pub name: String,
    /// Interval from its begin to its end.
    pub interval: Interval,
    /// The innermost scope of its thread when it began, if there was one.
    pub scope: Option<ScopeId>,
    /// Run time, if it was measured.
    pub duration: Option<Duration>,
    /// Arguments that are integers.
    pub attributes: Vec<Attribute>,
    /// Arguments that are numbers, including integers where a float is accepted, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<Number>,
}

impl Operator {
    /// Returns its name without the library's namespace.
    pub(crate) fn short_name(&self) -> &str {
        short_name(&self.name)
    }

    /// Returns the attribute `sequence`, which the operator shares with its autograd node.
    pub(crate) fn sequence(&self) -> Option<i64> {
        sequence(&self.attributes)
    }
}

fn sequence(attributes: &[Attribute]) -> Option<i64> {
    attributes.iter().find(|attribute| attribute.name == "sequence")?.values.first().copied()
}

/// An argument of an operator, or a property of a scope: integers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    /// The library's name of the argument, such as `dim`.
    pub name: String,
    /// Values; a flag is 0 or 1.
    pub values: Vec<i64>,
}

/// A number that an operator takes, such as the factor of a product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// The library's name of the argument, such as `other`.
    pub name: String,
    /// The bits of the `f64`.
    pub bits: u64,
}

impl Number {
    /// Returns the value.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.bits)
    }
}

/// A storage that an operator used, with the shape that the operator saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Use {
    /// Tick at which it was recorded.
    pub tick: Tick,
    /// The operator that used it.
    pub operator: OperatorId,
    /// The tensor that it used.
    pub operand: Operand,
}

/// A tensor that is an argument or a result of an operator.
///
/// Comparisons ignore its [identity](Self::identity), which another process does not know.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operand {
    /// The storage behind the tensor.
    pub storage: StorageId,
    /// Access of the operator to the tensor.
    pub access: Access,
    /// Sizes of the tensor, which may be a view of the storage.
    pub shape: Vec<u64>,
    /// True if a gradient flows through the tensor.
    pub wants_gradient: bool,
    /// A hash of the memory, if the program wrote to it itself, as far as a dry run shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_by_host: Option<u64>,
    /// Number of the storage and of the tensor's place in it, the same in all traces of a process as long as the storage
    /// lives; 0 if it is not known.
    #[serde(skip)]
    pub identity: u64,
}

impl PartialEq for Operand {
    fn eq(&self, other: &Self) -> bool {
        let Self { storage, access, shape, wants_gradient, written_by_host, identity: _ } = self;
        *storage == other.storage
            && *access == other.access
            && *shape == other.shape
            && *wants_gradient == other.wants_gradient
            && *written_by_host == other.written_by_host
    }
}

impl Eq for Operand {}

impl Operand {
    /// Creates a tensor that wants no gradient.
    #[must_use]
    pub fn new(storage: StorageId, access: Access, shape: &[u64]) -> Self {
        let shape = shape.to_owned();
        Self { storage, access, shape, wants_gradient: false, written_by_host: None, identity: 0 }
    }
}

/// Kinds of access of an operator to a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The operator reads the values.
    Reads,
    /// The operator changes existing values.
    Writes,
    /// The operator returns a new storage.
    Makes,
    /// The operator returns another view of an existing storage, and reads no values.
    Views,
}

/// A nested interval of one thread, such as a line of a function or a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Scope {
    /// Kind, name and source location of the scope.
    pub label: Label,
    /// Interval from its begin to its end.
    pub interval: Interval,
}

/// Description of a scope: its kind, its name, and its location in the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// The kind of scope.
    pub kind: ScopeKind,
    /// Name of the scope.
    pub name: String,
    /// The source file, if the scope is in one.
    pub file: Option<String>,
    /// Line in the file, from 1.
    pub line: Option<u32>,
    /// Further properties.
    pub attributes: Vec<Attribute>,
}

impl Label {
    /// Creates a label of that kind and name, in no file.
    #[must_use]
    pub fn new(kind: ScopeKind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), file: None, line: None, attributes: Vec::new() }
    }

    /// Sets the location to a line of a file.
    #[must_use]
    pub fn at(self, file: &str, line: u32) -> Self {
        Self { file: Some(file.to_owned()), line: Some(line), ..self }
    }

    /// Returns the number that a node shares with the operator whose gradient it computes.
    pub(crate) fn sequence(&self) -> Option<i64> {
        sequence(&self.attributes)
    }

    /// Adds a property.
    #[must_use]
    pub fn with(mut self, name: &str, values: &[i64]) -> Self {
        self.attributes.push(Attribute { name: name.to_owned(), values: values.to_owned() });
        self
    }
}

/// The kinds of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScopeKind {
    /// One attempt of a loop: one piece of the work.
    Attempt,
    /// A part of a step, such as `backward`.
    Phase,
    /// A node of the autograd graph.
    Node,
    /// A function of the program.
    Function,
    /// A line of a function.
    Line,
}
