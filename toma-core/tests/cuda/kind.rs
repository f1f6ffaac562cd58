//! What the double and its tests both number: compiled into each of them.

/// By what calls of the double are counted and made to fail.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Kind {
    Allocate,
    Free,
    Synchronize,
    Copy,
    Information,
    Trim,
    Initialize,
    SetCurrent,
}
