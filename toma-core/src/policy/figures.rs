//! Sizes and bytes as numbers to reckon with.

pub(super) fn share(part: usize, whole: usize) -> f64 {
    number(part) / number(whole)
}

#[expect(clippy::cast_precision_loss, reason = "sizes are estimates here")]
pub(super) fn number(size: usize) -> f64 {
    size as f64
}

#[expect(clippy::cast_precision_loss, reason = "bytes are estimates here")]
pub(super) fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates, and the engine bounds the size"
)]
pub(super) fn whole(size: f64) -> usize {
    size as usize
}
