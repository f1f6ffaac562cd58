use super::{Place, Remembered, SizeCache};

/// Remembers nothing: every call starts at its initial size.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{NoCache, classify::OutOfMemory, execute, report};
///
/// for _ in 0..2 {
///     execute::with::<NoCache>().batch(8, |size| if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) })?;
///     let report = report::last().unwrap();
///     assert_eq!((report.out_of_memory, report.settled, report.is_remembered), (2, Some(2), false));
/// }
/// # Ok::<(), OutOfMemory>(())
/// ```
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
