//! Moments and numbers as they stand in the file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A point in time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct Moment(u64);

impl Moment {
    /// The year 9000. Nothing later is written, because it could not be read.
    const LATEST: Self = Self(221_845_392_000_000);

    pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    pub(super) fn now() -> Self {
        Self::at(SystemTime::now())
    }

    pub(super) fn at(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)).min(Self::LATEST)
    }

    pub(super) fn time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0)
    }

    /// The first moment after this one, if there is one.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1).min(Self::LATEST)
    }

    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        humantime::format_rfc3339_millis(moment.time()).to_string()
    }
}

impl TryFrom<String> for Moment {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time = humantime::parse_rfc3339(&text).map_err(|error| format!("{text}: {error}"))?;
        let is_late = time > Self::LATEST.time();
        if is_late { Err(format!("{text}: too late")) } else { Ok(Self::at(time)) }
    }
}

/// A number without magnitude: text, because readers of JSON round numbers of 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct Hex(pub(super) u64);

impl From<Hex> for String {
    fn from(Hex(number): Hex) -> Self {
        format!("{number:#018x}")
    }
}

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").unwrap_or_default();
        u64::from_str_radix(digits, 16).map(Self).map_err(|error| format!("{text}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Hex, Moment};

    #[test]
    fn marks_come_back_as_they_were_written() {
        let latest = Moment::at(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1 << 40));
        let last = Moment(Moment::LATEST.0 - 1);
        let moments = [Moment(0), Moment(1), Moment(1_763_750_000_123), last];
        for moment in moments.into_iter().chain([latest, latest.next(), last.next().next()]) {
            let text = serde_json::to_string(&moment).unwrap();
            assert_eq!(serde_json::from_str::<Moment>(&text).unwrap(), moment, "{text}");
        }
        for number in [0, 1, u64::MAX] {
            let text = serde_json::to_string(&Hex(number)).unwrap();
            assert_eq!(serde_json::from_str::<Hex>(&text).unwrap(), Hex(number), "{text}");
        }
    }

    #[test]
    fn what_is_no_mark_is_refused() {
        for text in ["\"\"", "\"9999-12-31T23:59:59Z\"", "\"yesterday\"", "12", "\"-1\"", "null"] {
            assert!(serde_json::from_str::<Moment>(text).is_err(), "{text}");
        }
        for text in ["\"\"", "\"12\"", "\"0x\"", "\"0x11112222333344445\"", "7", "\"0xg\""] {
            assert!(serde_json::from_str::<Hex>(text).is_err(), "{text}");
        }
    }
}
