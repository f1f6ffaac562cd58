//! When attempts, lines, operators and backwards began: by that a failure tells what a block is for.

use super::thread::Here;

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

impl Here {
    /// Where operators are not told of, those with a gradient are known by the numbers they take.
    pub(super) fn looks_for_numbered(&mut self) {
        let next = (self.shared.position)();
        if next != self.position {
            (self.position, self.now.numbered) = (next, Some(self.moment()));
        }
    }

    /// A line or an attempt begins: none of its operators has.
    pub(super) fn begins_anew(&mut self) {
        self.position = (self.shared.position)();
        (self.now.line, self.now.operator, self.now.numbered) = (self.moment(), None, None);
    }

    /// The outermost attempt begins, or goes on, or has ended.
    pub(super) fn attempts(&mut self, begins: bool) {
        if self.groups.is_empty() {
            self.now.attempt = begins.then(|| self.moment());
        }
    }
}
