/// What the engine must measure for a policy.
///
/// Measuring is not free, so a policy has to ask for it. Without a wish no clock is read and no memory
/// source is asked while nothing fails.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// How long each attempt takes: two looks at the clock per attempt.
    pub time: bool,
    /// What each attempt allocates and what is available: two questions to the memory source per
    /// attempt, and its peak is reset, unless an attempt that is measured is in the middle there already.
    /// Only of calls with the option [`device`](crate::execute::With::device): no others say which memory
    /// it is.
    pub memory: bool,
}

impl Needs {
    /// Nothing: what a policy that says nothing gets.
    pub const NOTHING: Self = Self { time: false, memory: false };
    /// Time alone.
    pub const TIME: Self = Self { time: true, memory: false };
    /// Time and memory.
    pub const TIME_AND_MEMORY: Self = Self { time: true, memory: true };

    /// Whether anything is to be measured.
    #[inline]
    pub const fn anything(self) -> bool {
        self.time || self.memory
    }
}
