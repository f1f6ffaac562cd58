//! The four tables of a trace.

use std::fmt;
use std::ops::Index;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::place::Place;

/// What a step did: storages, operators, uses and scopes, on one clock.
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

/// A moment on the clock of one trace: how many events have happened. Each birth, death, use, begin and end has a tick of its own, whatever its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tick(u64);

impl Tick {
    /// Before the first event.
    pub const START: Self = Self(0);

    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// How many events had happened, this one included.
    #[must_use]
    pub fn count(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A thread of the program, by a number that the recording side chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadId(pub u64);

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.0)
    }
}

/// A row's number in its table.
macro_rules! id {
    ($(#[$doc:meta])* $id:ident: $table:ident of $row:ty, $noun:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $id(pub(crate) usize);

        impl $id {
            /// The number of the row, from 0.
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
        /// When the id is another trace's and this one has no such row.
        impl Index<$id> for Trace {
            type Output = $row;

            fn index(&self, id: $id) -> &$row {
                &self.0.$table[id.0]
            }
        }

        impl Trace {
            /// The rows of this table with their ids, in the order in which they came up.
            pub fn $table(&self) -> impl ExactSizeIterator<Item = ($id, &$row)> + DoubleEndedIterator {
                self.0.$table.iter().enumerate().map(|(index, row)| ($id(index), row))
            }
        }
    };
}

id! {
    /// Names a [`Storage`] of one trace.
    StorageId: storages of Storage, "storage"
}
id! {
    /// Names an [`Operator`] of one trace.
    OperatorId: operators of Operator, "operator"
}
id! {
    /// Names a [`Scope`] of one trace.
    ScopeId: scopes of Scope, "scope"
}

impl Trace {
    /// Every use of a storage by an operator, in the order of their ticks.
    #[must_use]
    pub fn uses(&self) -> &[Use] {
        &self.0.uses
    }

    /// The tick of the last event: [`Tick::START`] if there was none.
    #[must_use]
    pub fn end(&self) -> Tick {
        self.0.end
    }

    /// Every block with its storage: storage by storage, each in the order of its births.
    pub fn blocks(&self) -> impl Iterator<Item = (StorageId, &Block)> {
        self.storages().flat_map(|(id, storage)| storage.blocks.iter().map(move |block| (id, block)))
    }
}

/// What tensors and their views share: one block of memory, or several one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Storage {
    /// In the order of their births; at most the last is alive.
    pub blocks: Vec<Block>,
}

/// Memory that a storage holds or held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Block {
    /// Its size.
    pub bytes: u64,
    /// Which memory it lies in.
    pub place: Place,
    /// `None` if it was there before the trace.
    pub birth: Option<Moment>,
    /// `None` if it was there after the trace.
    pub death: Option<Moment>,
    /// The innermost operator of its thread when it was born, if there was one.
    pub operator: Option<OperatorId>,
}

impl Block {
    /// Whether it is there once the event of that tick has happened.
    #[must_use]
    pub fn is_alive(&self, at: Tick) -> bool {
        self.birth.is_none_or(|birth| birth.tick <= at) && self.death.is_none_or(|death| at < death.tick)
    }
}

/// When something happened, and on which thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Moment {
    /// Its tick.
    pub tick: Tick,
    /// The thread that did it.
    pub thread: ThreadId,
}

/// When something began and ended, on one thread.
///
/// What had not ended with the trace ends at its last ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Interval {
    /// The tick at which it began.
    pub begin: Tick,
    /// The tick at which it ended.
    pub end: Tick,
    /// The thread of both.
    pub thread: ThreadId,
}

impl Interval {
    /// Whether it has begun and not ended once the event of that tick has happened.
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
    /// What the library calls it.
    pub name: String,
    /// From its begin to its end.
    pub interval: Interval,
    /// The innermost scope of its thread when it began, if there was one.
    pub scope: Option<ScopeId>,
    /// How long it took, if that was measured.
    pub duration: Option<Duration>,
    /// Arguments that are integers.
    pub attributes: Vec<Attribute>,
    /// Arguments that are numbers, integers among them where a float would do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<Number>,
}

impl Operator {
    /// Its name without the library's namespace.
    pub(crate) fn short_name(&self) -> &str {
        self.name.strip_prefix("aten::").unwrap_or(&self.name)
    }

    /// The attribute `sequence`, which is also that of the node of its gradient.
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
    /// What the library calls it, such as `dim`.
    pub name: String,
    /// Its values; a flag is 0 or 1.
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
    /// The value.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.bits)
    }
}

/// A storage that an operator touched, as it saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Use {
    /// When it was noted.
    pub tick: Tick,
    /// The operator.
    pub operator: OperatorId,
    /// The tensor it touched.
    pub operand: Operand,
}

/// A tensor that an operator takes or gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operand {
    /// The storage behind the tensor.
    pub storage: StorageId,
    /// What the operator does with it.
    pub access: Access,
    /// The sizes of the tensor, which may be a view of the storage.
    pub shape: Vec<u64>,
    /// Whether a gradient flows through the tensor.
    pub wants_gradient: bool,
    /// Whether the program wrote to the memory itself, as far as a dry run shows it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_written_by_host: bool,
}

impl Operand {
    /// A tensor that wants no gradient.
    #[must_use]
    pub fn new(storage: StorageId, access: Access, shape: &[u64]) -> Self {
        Self { storage, access, shape: shape.to_owned(), wants_gradient: false, is_written_by_host: false }
    }

    /// The same, with a gradient.
    #[must_use]
    pub fn wants_gradient(self) -> Self {
        Self { wants_gradient: true, ..self }
    }
}

/// What an operator does with a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// It reads the values.
    Reads,
    /// It changes values that were there.
    Writes,
    /// It returns a storage that is new.
    Makes,
    /// It returns another view of a storage that was there, and reads no values.
    Views,
}

/// A nested interval of one thread, such as a line of a function or a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Scope {
    /// What it is.
    pub label: Label,
    /// From its begin to its end.
    pub interval: Interval,
}

/// What a scope is: its kind, its name, and where it stands in the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// The kind of scope.
    pub kind: ScopeKind,
    /// Its name.
    pub name: String,
    /// The source file, if it stands in one.
    pub file: Option<String>,
    /// The line in the file, from 1.
    pub line: Option<u32>,
    /// What else is known of it.
    pub attributes: Vec<Attribute>,
}

impl Label {
    /// A scope of that kind and name, in no file.
    #[must_use]
    pub fn new(kind: ScopeKind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), file: None, line: None, attributes: Vec::new() }
    }

    /// The same, at a line of a file.
    #[must_use]
    pub fn at(self, file: &str, line: u32) -> Self {
        Self { file: Some(file.to_owned()), line: Some(line), ..self }
    }

    /// The number that a node has in common with the operator whose gradient it computes.
    pub(crate) fn sequence(&self) -> Option<i64> {
        sequence(&self.attributes)
    }

    /// The same, with one more property.
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
    /// An operator made of others.
    Composite,
    /// A node of the graph of gradients.
    Node,
    /// A function of the program.
    Function,
    /// A line of a function.
    Line,
    /// A unit that a checkpoint plan keeps or runs again.
    Stage,
}
