//! Memory that is left free on purpose.

/// The part of free memory that is left free, because no plan sees all memory that a program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRoom {
    per_mille: u16,
}

impl HeadRoom {
    /// Leaves so many thousandths free.
    ///
    /// # Panics
    ///
    /// If `per_mille` is more than 1000.
    #[must_use]
    pub fn per_mille(per_mille: u16) -> Self {
        assert!(per_mille <= 1000, "head-room of {per_mille} per mille: must be at most 1000");
        Self { per_mille }
    }

    /// Returns the bytes that may be used of so many free bytes.
    #[must_use]
    pub fn usable(self, free_bytes: u64) -> u64 {
        let kept_free = (u128::from(free_bytes) * u128::from(self.per_mille)).div_ceil(1000);
        free_bytes - u64::try_from(kept_free).unwrap_or(free_bytes)
    }
}

impl Default for HeadRoom {
    /// One percent.
    fn default() -> Self {
        Self::per_mille(10)
    }
}

#[cfg(test)]
mod tests {
    use super::HeadRoom;

    #[test]
    fn a_part_is_rounded_up_and_never_more_than_all() {
        let usable = |per_mille, free| HeadRoom::per_mille(per_mille).usable(free);
        assert_eq!([usable(10, 1000), usable(10, 1001), usable(0, 7), usable(1000, 7)], [990, 990, 7, 0]);
        assert_eq!(usable(1000, u64::MAX), 0);
        assert_eq!(HeadRoom::default().usable(0), 0);
    }

    #[test]
    #[should_panic(expected = "head-room of 1001 per mille: must be at most 1000")]
    fn more_than_all_is_refused() {
        let _ = HeadRoom::per_mille(1001);
    }
}
