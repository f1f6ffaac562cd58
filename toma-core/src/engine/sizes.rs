//! The sizes a call may use: validated once, then rounded and bounded in one place.

use std::fmt::Display;

/// The size options of one call, as the user gave them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeOptions {
    pub(crate) initial: Option<usize>,
    /// The size to begin with, if the cache has no entry.
    pub(crate) first: Option<usize>,
    pub(crate) min: usize,
    pub(crate) max: Option<usize>,
    pub(crate) multiple_of: usize,
}

impl SizeOptions {
    /// The smallest size; `None` if there is none in the address space.
    pub(crate) fn floor(&self) -> Option<usize> {
        self.min.max(self.multiple_of).checked_next_multiple_of(self.multiple_of)
    }
}

impl Default for SizeOptions {
    fn default() -> Self {
        Self { initial: None, first: None, min: 1, max: None, multiple_of: 1 }
    }
}

/// The sizes a call may use: multiples of `multiple_of` from `floor` to `cap`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) floor: usize,
    pub(crate) cap: usize,
    pub(crate) multiple_of: usize,
}

impl Sizes {
    /// Checks the options of the call `of`.
    ///
    /// Panics with its name, and the options' names and values, because a mistake here has no place in
    /// the body's own error type.
    #[inline]
    pub(crate) fn new(options: &SizeOptions, of: &impl Display) -> Self {
        let &SizeOptions { initial, min, max, multiple_of, .. } = options;
        let largest = initial.unwrap_or(usize::MAX).min(max.unwrap_or(usize::MAX));
        if multiple_of == 1 {
            // Most calls: nothing to divide.
            let sizes = Self { floor: min, cap: largest, multiple_of };
            return if 0 < min && min <= largest { sizes } else { refuse(options, of) };
        }
        Self::of_multiples(options, largest).unwrap_or_else(|| refuse(options, of))
    }

    fn of_multiples(options: &SizeOptions, largest: usize) -> Option<Self> {
        let &SizeOptions { min, multiple_of, .. } = options;
        let floor = options.floor()?;
        let cap = largest / multiple_of * multiple_of;
        (0 < min && floor <= largest).then_some(Self { floor, cap, multiple_of })
    }

    /// `size` rounded down to a multiple and kept between floor and cap.
    #[inline]
    pub(crate) fn fit(&self, size: usize) -> usize {
        // Division is the one slow instruction of the success path, and few calls need it.
        let rounded = if self.multiple_of == 1 { size } else { size / self.multiple_of * self.multiple_of };
        rounded.min(self.cap).max(self.floor)
    }

    /// True if something smaller than `size` may be tried.
    #[inline]
    pub(crate) fn can_shrink(&self, size: usize) -> bool {
        self.floor < size
    }
}

/// Panics with the wrong options, with names and values.
#[cold]
fn refuse(options: &SizeOptions, of: &impl Display) -> ! {
    let &SizeOptions { initial, min, max, multiple_of, .. } = options;
    let given = [("initial", initial), ("min", Some(min)), ("max", max), ("multiple_of", Some(multiple_of))];
    for (name, value) in given {
        assert!(value != Some(0), "{of}: {name} 0: must be at least 1");
    }
    let floor = options.floor().unwrap_or(usize::MAX);
    for (name, limit) in [("initial", initial), ("max", max)] {
        let limit = limit.unwrap_or(usize::MAX);
        assert!(min <= limit, "{of}: min {min}: must be at most {name} {limit}");
        assert!(
            floor <= limit,
            "{of}: {name} {limit}: must be at least the floor {floor} (min {min}, multiple_of {multiple_of})"
        );
    }
    panic!("{of}: multiple_of {multiple_of}: no multiple from min {min} fits in the address space");
}

#[cfg(test)]
mod tests {
    use super::{SizeOptions, Sizes};

    fn sizes(initial: usize, min: usize, max: usize, multiple_of: usize) -> Sizes {
        Sizes::new(
            &SizeOptions { initial: Some(initial), first: None, min, max: Some(max), multiple_of },
            &"here",
        )
    }

    #[test]
    fn floor_and_cap_are_multiples() {
        let sizes = sizes(100, 10, 90, 8);
        assert_eq!((sizes.floor, sizes.cap), (16, 88));
        assert_eq!([3, 17, 64, 1000].map(|size| sizes.fit(size)), [16, 16, 64, 88]);
    }

    #[test]
    fn every_mistake_names_itself() {
        let message = |initial, min, max, multiple_of| {
            let panic = std::panic::catch_unwind(|| sizes(initial, min, max, multiple_of)).unwrap_err();
            panic.downcast::<String>().map_or_else(|_| String::new(), |text| *text)
        };
        assert_eq!(message(0, 1, 8, 1), "here: initial 0: must be at least 1");
        assert_eq!(message(8, 0, 8, 1), "here: min 0: must be at least 1");
        assert_eq!(message(8, 1, 0, 1), "here: max 0: must be at least 1");
        assert_eq!(message(8, 1, 8, 0), "here: multiple_of 0: must be at least 1");
        assert_eq!(message(4, 8, 16, 1), "here: min 8: must be at most initial 4");
        assert_eq!(message(16, 8, 4, 1), "here: min 8: must be at most max 4");
        assert_eq!(
            message(4, 1, 16, 8),
            "here: initial 4: must be at least the floor 8 (min 1, multiple_of 8)"
        );
        let beyond =
            format!("here: multiple_of 2: no multiple from min {} fits in the address space", usize::MAX);
        assert_eq!(message(usize::MAX, usize::MAX, usize::MAX, 2), beyond);
    }
}
