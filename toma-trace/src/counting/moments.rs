//! When attempts, lines, operators and backwards began: by that a failure tells what a block is for.

/// The moments that tell what a block waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    /// When the outermost attempt began.
    pub(super) attempt: Option<u32>,
    /// When the line in force began.
    pub(super) line: u32,
    /// When the last operator of the line began, or its backward, if that was told.
    pub(super) operator: Option<u32>,
    /// When its last operator with a gradient began, at the latest. Others may have begun since.
    pub(super) numbered: Option<u32>,
    /// When the backward that runs began, or the last.
    pub(super) backward: Option<u32>,
}
