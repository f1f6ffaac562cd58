//! The columns of a table of lines.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// Makes the enum of columns from a table: description, variant, and name in the header.
macro_rules! columns {
    ($($(#[$of:meta])* $column:ident = $name:literal,)*) => {
        /// A figure of each line in a table of lines. A *stay* is one run of a line, from its mark until its frame is
        /// left or passes another mark.
        ///
        /// A column is written by its own name, such as `peak`, or by its name in `pytorch_memlab`.
        ///
        /// ```
        /// # use toma_core as toma;
        /// use toma::marks::Column;
        ///
        /// assert_eq!("peak".parse(), Ok(Column::Peak));
        /// assert_eq!("active_bytes.all.peak".parse(), Ok(Column::Peak));
        /// assert_eq!("reserved_bytes.all.peak".parse(), Ok(Column::Reserved));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Column {
            $($(#[$of])* $column,)*
        }

        impl Column {
            /// Every column.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$column),*];

            /// The name of the column, as in the table's header.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$column => $name,)*
                }
            }
        }
    };
}

columns! {
    /// The most bytes on the device during a stay.
    Peak = "peak",
    /// The most bytes that the device's allocator had reserved during a stay.
    Reserved = "reserved",
    /// The most by which the bytes rose above those at the start of a stay.
    Rise = "rise",
    /// The most bytes at the end of a stay.
    Current = "current",
    /// Bytes that were allocated.
    Allocated = "allocated",
    /// Bytes that were freed.
    Freed = "freed",
    /// Bytes that were allocated, less those that were freed.
    Net = "net",
    /// Bytes that were allocated in the line and are live.
    Kept = "kept",
    /// Bytes of storages that were fetched to the device; not counted as allocated.
    Fetched = "fetched",
    /// Bytes of storages that were evicted from the device; not counted as freed.
    Offloaded = "offloaded",
    /// Bytes that were allocated to compute the gradients of the line's operators.
    Backward = "backward",
    /// Number of times the line's mark was passed.
    Hits = "hits",
    /// Allocations that failed.
    Ooms = "ooms",
    /// Time of the line, including its callees.
    Time = "time",
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error of a text that names no column.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::marks::Column;
///
/// let error = "peek".parse::<Column>().unwrap_err();
/// assert!(error.to_string().starts_with("unknown column \"peek\": there are "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownColumn {
    text: String,
}

impl fmt::Display for UnknownColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Column::ALL.map(Column::name).join(", ");
        write!(f, "unknown column {:?}: there are {known}", self.text)
    }
}

impl Error for UnknownColumn {}

impl FromStr for Column {
    type Err = UnknownColumn;

    fn from_str(text: &str) -> Result<Self, UnknownColumn> {
        let own = Self::ALL.into_iter().find(|column| column.name() == text);
        own.or_else(|| of_memlab(text)).ok_or_else(|| UnknownColumn { text: text.to_owned() })
    }
}

/// Returns the column for a name of `pytorch_memlab`, which are those of `torch.cuda.memory_stats`, for all pools.
fn of_memlab(text: &str) -> Option<Column> {
    let parts: Vec<_> = text.split('.').collect();
    match parts[..] {
        ["num_ooms"] => Some(Column::Ooms),
        ["reserved_bytes", "all", "peak"] => Some(Column::Reserved),
        ["active_bytes" | "allocated_bytes", "all", figure] => match figure {
            "peak" => Some(Column::Peak),
            "current" => Some(Column::Current),
            "allocated" => Some(Column::Allocated),
            "freed" => Some(Column::Freed),
            _ => None,
        },
        _ => None,
    }
}
