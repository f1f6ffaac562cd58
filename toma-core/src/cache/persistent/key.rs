//! Which call on which memory: what tells the entries of a file apart.

use std::env;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::marks::Hex;
use crate::cache::Place;
use crate::call_site::Site;
use crate::memory::{self, Reading};

/// A call on a memory, by values that mean the same in every process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct CallKey {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) crate_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<Hex>,
    pub(super) device: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) total_bytes: Option<u64>,
}

impl CallKey {
    /// The call at `place`, and its memory now.
    pub(super) fn at(place: &Place<'_>) -> (Self, Option<Reading>) {
        let memory = place.device.unwrap_or(memory::Host::shared());
        let now = memory::recent(memory);
        let site = place.origin.site;
        let line = place.origin.caller.map(ToString::to_string);
        let key = Self {
            name: place.name.to_string(),
            place: site.map_or(line, |site| Some(site.position())),
            crate_version: site.and_then(Site::version).map(Into::into),
            // The path of a function names its crate; `src/main.rs:7:5` may be a line of any program.
            program: if site.is_some() { None } else { program() },
            key: Some(Hex(place.user)).filter(|key| key.0 != 0),
            device: memory.name().into(),
            total_bytes: now.map(|now| about(now.total_bytes)),
        };
        (key, now)
    }

    /// Whether both have the same name, key and memory, wherever the lines of the program moved.
    pub(super) fn is_namesake(&self, other: &Self) -> bool {
        (&self.name, self.key, &self.device, self.total_bytes)
            == (&other.name, other.key, &other.device, other.total_bytes)
    }
}

/// `bytes` to six binary digits, rounded down: a total that differs by less than 3 % from run to run,
/// as limits of processes and containers do, is one total.
fn about(bytes: u64) -> u64 {
    let digits = u64::BITS - bytes.leading_zeros();
    let rest = digits.saturating_sub(6);
    bytes >> rest << rest
}

/// The file name of this program, without its extension.
fn program() -> Option<String> {
    static PROGRAM: OnceLock<Option<String>> = OnceLock::new();
    let name = || Some(env::current_exe().ok()?.file_stem()?.to_string_lossy().into_owned());
    PROGRAM.get_or_init(name).clone()
}

#[cfg(test)]
mod tests {
    use super::about;

    #[test]
    fn totals_keep_six_binary_digits() {
        assert_eq!([0, 1, 63, 64, 65, 127].map(about), [0, 1, 63, 64, 64, 126]);
        assert_eq!([80 << 30, (80 << 30) + 1].map(about), [80 << 30; 2]);
        for bytes in [100, 12_345, 85_029_158_912, u64::MAX] {
            assert!(about(bytes) <= bytes && bytes - about(bytes) <= bytes / 32, "{bytes}");
        }
    }
}
