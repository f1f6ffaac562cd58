//! Process-wide switches, read with one relaxed load per call.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::text;

static SWITCHES: AtomicU8 = AtomicU8::new(0);

/// The current switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switches(u8);

impl Switches {
    /// The environment has been read.
    const READ: u8 = 1;
    /// `TOMA_LOG=1`: every shrink is printed.
    pub(crate) const LOG: u8 = 1 << 1;
    /// `TOMA_DISABLE=1`: bodies run once, at the initial size.
    pub(crate) const DISABLE: u8 = 1 << 2;
    /// An observer sees every call of the process.
    pub(crate) const OBSERVED: u8 = 1 << 3;
    /// A hook is registered that frees memory when it runs out.
    pub(crate) const HOOKED: u8 = 1 << 4;
    /// `TOMA_PREDICT=0`: no first size is predicted.
    pub(crate) const UNPREDICTED: u8 = 1 << 5;
    /// A witness observes where attempts run.
    pub(crate) const WITNESSED: u8 = 1 << 6;
    /// An attempt of the process has offered a leaner plan.
    pub(crate) const OFFERED: u8 = 1 << 7;
    /// Switches that change the course of a call.
    pub(crate) const CHANGES_CALLS: u8 = Self::DISABLE | Self::HOOKED;
    /// Switches that give a call stages.
    pub(crate) const GIVES_STAGES: u8 = Self::CHANGES_CALLS | Self::WITNESSED | Self::OFFERED;

    #[inline]
    pub(crate) fn load() -> Self {
        let bits = SWITCHES.load(Relaxed);
        if bits & Self::READ == 0 { read_environment() } else { Self(bits) }
    }

    /// True if any of these switches is set.
    #[inline]
    pub(crate) fn has(self, any: u8) -> bool {
        self.0 & any != 0
    }

    pub(crate) fn set(bit: u8, on: bool) {
        if on {
            SWITCHES.fetch_or(bit, Relaxed);
        } else {
            SWITCHES.fetch_and(!bit, Relaxed);
        }
    }
}

#[cold]
fn read_environment() -> Switches {
    let mut bits = Switches::READ;
    for (name, bit) in [("TOMA_LOG", Switches::LOG), ("TOMA_DISABLE", Switches::DISABLE)] {
        if std::env::var(name).is_ok_and(|value| is_on(name, &value)) {
            bits |= bit;
        }
    }
    if std::env::var("TOMA_PREDICT").is_ok_and(|value| is_off(&value)) {
        bits |= Switches::UNPREDICTED;
    }
    Switches(SWITCHES.fetch_or(bits, Relaxed) | bits)
}

/// Any value but the usual words for no leaves predictions on, without a message.
fn is_off(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "off" | "no")
}

/// Accepts the usual words for yes and no. Any other value is reported, and counts as no.
fn is_on(name: &str, value: &str) -> bool {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" => true,
        "" | "0" | "false" | "off" | "no" => false,
        _ => {
            text::print(&format!("toma: {name}={value}: must be 1 or 0; taken for 0"));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_on;

    #[test]
    fn yes_and_no() {
        assert!(["1", "true", "On", "YES"].iter().all(|value| is_on("TOMA_LOG", value)));
        assert!(["", "0", "False", "off", "no", "maybe"].iter().all(|value| !is_on("TOMA_LOG", value)));
    }
}
