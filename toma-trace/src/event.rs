//! Events of a running program: the one language between code that observes it and code that reads the recording.
//!
//! # Why
//!
//! A step is observed by a recorder of operators, by the ring of a profiler, or by a test. Readers such as the
//! [`TraceBuilder`](crate::TraceBuilder) depend on none of them, so they are tested without libtorch.

use std::borrow::Cow;
use std::time::Duration;

use crate::place::Place;
use crate::record::Contradiction;
use crate::tables::{Access, ScopeKind, StorageId, ThreadId};
use toma_core::marks::Function;

/// Reads the events of all threads in the order in which they happened.
pub trait Reader {
    /// Reads an event of a thread.
    ///
    /// # Errors
    ///
    /// If the event contradicts earlier ones.
    fn read(&mut self, thread: ThreadId, event: &Event<'_>) -> Result<(), Contradiction>;
}

/// An event of one thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// An operator begins, with the node of its gradient if that is known.
    OperatorBegins {
        /// The library's name of the operator.
        name: &'a str,
        /// The node that will compute its gradient.
        node: Option<Node>,
    },
    /// A scope begins that is no function and no line.
    ScopeBegins {
        /// The kind of scope.
        kind: ScopeKind,
        /// Name of the scope.
        name: &'a str,
        /// The node itself, for a scope of this kind.
        node: Option<Node>,
    },
    /// The most recent operator or scope of the thread ends that is neither a function nor a line, with all scopes inside.
    Ends {
        /// Run time of the operator, if it was measured.
        duration: Option<Duration>,
    },
    /// A mark of the program's source.
    Mark(Mark<Location<'a>>),
    /// An argument of the innermost operator that is one integer or several.
    Attribute {
        /// The library's name of the argument.
        name: &'a str,
        /// Values; a flag is 0 or 1.
        values: &'a [i64],
    },
    /// An argument of the innermost operator that is a number.
    Number {
        /// The library's name of the argument.
        name: &'a str,
        /// The value.
        value: f64,
    },
    /// The innermost operator uses a tensor.
    Uses {
        /// Access of the operator to the tensor.
        access: Access,
        /// Memory of the tensor's storage, at address 0 if the tensor has none.
        memory: Memory,
        /// Sizes of the tensor.
        shape: &'a [i64],
        /// True if a gradient flows through the tensor.
        wants_gradient: bool,
        /// A hash of the memory, if the program wrote to it itself, as far as a dry run shows it.
        written_by_host: Option<u64>,
        /// Number of the storage in this process and of the tensor's place in it; 0 if it is not known.
        identity: u64,
    },
    /// A block is allocated.
    Born(Memory),
    /// A block is allocated for a storage that was evicted: the storage is fetched.
    Fetched(StorageId, Memory),
    /// A block is freed.
    Died(Memory),
}

/// A block of memory. The address identifies it as long as it is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Address of the block.
    pub address: u64,
    /// The memory that holds the block.
    pub place: Place,
    /// Size in bytes.
    pub bytes: u64,
}

/// A mark of a function under `#[toma::profile]`. `L` identifies a line of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<L> {
    /// A function is called, one of its closures runs, or a task is resumed, at a line.
    Enters(L),
    /// A line becomes current in the innermost function.
    Line(L),
    /// Control leaves braces of the source and returns to this line, which encloses them.
    LeftTo(L),
    /// The innermost function ends, with all scopes inside.
    Leaves,
}

impl<L> Mark<L> {
    /// Identifies the line in another way. Returns `None` if `find` does not find it.
    pub fn find<M>(self, find: impl FnOnce(L) -> Option<M>) -> Option<Mark<M>> {
        Some(match self {
            Self::Enters(line) => Mark::Enters(find(line)?),
            Self::Line(line) => Mark::Line(find(line)?),
            Self::LeftTo(line) => Mark::LeftTo(find(line)?),
            Self::Leaves => Mark::Leaves,
        })
    }
}

/// A line of a function, as it stands in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location<'a> {
    /// Name of the function.
    pub function: Cow<'a, str>,
    /// File of the function.
    pub file: Cow<'a, str>,
    /// Number of the line in the file, from 1.
    pub number: u32,
    /// Text of the line.
    pub text: &'a str,
}

impl<'a> Location<'a> {
    /// Returns the location of a line.
    #[must_use]
    pub fn new(function: &'a str, file: &'a str, number: u32, text: &'a str) -> Self {
        Self { function: function.into(), file: file.into(), number, text }
    }

    /// Returns the location of a line of a marked function, by its index there.
    #[must_use]
    pub fn of(function: &'static Function, line: u32) -> Option<Self> {
        let line = function.lines.get(line as usize)?;
        let (path, file) = (function.path().into(), function.shown_file().into());
        Some(Self { function: path, file, number: line.number, text: line.text })
    }
}

/// Sequence number by which an operator and its autograd node are matched. The bits above `THREAD` have the number of the
/// operator's thread. 0 stands for none where a number is stored without an `Option`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node(pub u64);

impl Node {
    /// Number of bits below the thread.
    pub(crate) const THREAD: u32 = 40;

    /// Returns the number, or -1 for a node that adds a gradient to its variable and has no number of its own.
    pub(crate) fn sequence(self) -> i64 {
        let is_numbered = self.0 & ((1 << Self::THREAD) - 1) != 0;
        if is_numbered { i64::try_from(self.0).unwrap_or(-1) } else { -1 }
    }
}
