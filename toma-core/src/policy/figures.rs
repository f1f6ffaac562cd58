//! Conversions between sizes, bytes and floating-point numbers.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes and bytes are estimates here; a cast saturates, and the engine bounds every size"
)]

pub(crate) fn share(part: usize, whole: usize) -> f64 {
    number(part) / number(whole)
}

pub(super) fn number(size: usize) -> f64 {
    size as f64
}

pub(crate) fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

pub(super) fn whole(size: f64) -> usize {
    size as usize
}

pub(crate) fn whole_bytes(bytes: f64) -> u64 {
    bytes as u64
}

/// Returns `share` after checking its range.
///
/// # Panics
/// When `share` is not between 0 and 1.
pub(super) fn fraction(name: &str, share: f64) -> f64 {
    assert!((0.0..=1.0).contains(&share), "{name} {share}: must be between 0 and 1");
    share
}
