/// The measurements that the engine must make for a policy.
///
/// Measuring is not free, so a policy has to ask for it. For a policy that needs nothing, no clock is read
/// and no memory source is asked while attempts succeed.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::policy::{Evidence, Needs, Policy};
///
/// /// Halves, and returns to a size that took less than a second.
/// #[derive(Debug)]
/// struct Brisk;
///
/// impl Policy for Brisk {
///     fn shrink(&self, evidence: &Evidence) -> usize {
///         evidence.size / 2
///     }
///
///     fn advance(&self, evidence: &Evidence) -> usize {
///         let is_slow = evidence.elapsed.is_some_and(|elapsed| elapsed.as_secs() >= 1);
///         if is_slow { evidence.step / 2 } else { evidence.step }
///     }
///
///     fn needs(&self) -> Needs {
///         Needs::TIME
///     }
/// }
/// # assert!(Brisk.needs().anything());
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The time of each attempt: two readings of the clock per attempt.
    pub time: bool,
    /// The bytes that each attempt allocates, and the available bytes.
    ///
    /// This reads the memory source twice per attempt. The source's peak is reset, unless another measured attempt is
    /// running there. Memory is measured only in calls with the option [`device`](crate::execute::With::device),
    /// because only those name a memory.
    pub memory: bool,
}

impl Needs {
    /// Nothing: the default.
    pub const NOTHING: Self = Self { time: false, memory: false };
    /// Time without memory.
    pub const TIME: Self = Self { time: true, memory: false };
    /// Time and memory.
    pub const TIME_AND_MEMORY: Self = Self { time: true, memory: true };

    /// True if anything is to be measured.
    #[inline]
    pub const fn anything(self) -> bool {
        self.time || self.memory
    }
}
