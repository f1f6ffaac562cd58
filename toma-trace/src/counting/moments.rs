//! Begins of attempts, lines, operators and backwards, from which a failure derives the use of a block.

/// Moments that decide how a block is used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    /// Begin of the outermost attempt.
    pub(super) attempt: Option<u32>,
    /// Begin of the current line.
    pub(super) line: u32,
    /// Begin of the line's last operator, or of its backward, if operators are recorded.
    pub(super) operator: Option<u32>,
    /// Latest possible begin of its last operator with a gradient. Others may have begun since.
    pub(super) numbered: Option<u32>,
    /// Begin of the running backward, or of the last one.
    pub(super) backward: Option<u32>,
}
