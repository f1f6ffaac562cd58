//! What the double and its tests both number: compiled into each of them.

/// A group of the driver's functions, whose calls the double counts and makes fail.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Function {
    Allocate,
    Free,
    Synchronize,
    Copy,
    Information,
    Trim,
    Initialize,
    SetCurrent,
}
