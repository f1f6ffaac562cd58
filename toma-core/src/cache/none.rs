use super::{Place, Remembered, SizeCache};

/// Remembers nothing: every call starts at its initial size.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCache;

impl SizeCache for NoCache {
    fn shared() -> &'static Self {
        &Self
    }

    fn remembers(&self) -> bool {
        false
    }

    #[inline]
    fn recall(&self, _: &Place<'_>) -> Option<Remembered> {
        None
    }

    fn remember(&self, _: &Place<'_>, _: Remembered) {}
}
