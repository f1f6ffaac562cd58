//! The three attributes and their parameters by position.

use std::fmt;

/// One of the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Batch,
    Range,
    Chunked,
}

/// Meaning of a leading parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Data,
    Size,
    Start,
    End,
}

impl Form {
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Meanings of the first parameters after `self`, in order.
    pub(crate) fn roles(self) -> &'static [Role] {
        match self {
            Self::Batch => &[Role::Size],
            Self::Range => &[Role::Start, Role::End],
            Self::Chunked => &[Role::Data, Role::Start, Role::End],
        }
    }

    /// True if callers pass the parameter; the loop supplies the others.
    pub(crate) fn keeps(self, role: Role) -> bool {
        role == Role::Data || self == Self::Range
    }

    /// Describes the roles in words, for messages.
    pub(crate) fn takes(self) -> &'static str {
        match self {
            Self::Batch => "the batch size as the first parameter",
            Self::Range => "start and end as the first two parameters",
            Self::Chunked => "the data, start and end as the first three parameters",
        }
    }
}

impl Role {
    /// The name a parameter gets in the emitted signature when the user wrote a pattern.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`#[toma::{}]`", self.name())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::Size { f.write_str("the batch size") } else { f.write_str(&self.name()) }
    }
}
