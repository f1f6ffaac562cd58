//! Process-wide switches, read with one relaxed load per call.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::text;

static SWITCHES: AtomicU8 = AtomicU8::new(0);

const READ: u8 = 1;
const LOG: u8 = 1 << 1;
const DISABLE: u8 = 1 << 2;
const OBSERVED: u8 = 1 << 3;
const HOOKED: u8 = 1 << 4;
const UNPREDICTED: u8 = 1 << 5;
const WITNESSED: u8 = 1 << 6;
const OFFERED: u8 = 1 << 7;

/// The current switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switches(u8);

impl Switches {
    #[inline]
    pub(crate) fn load() -> Self {
        let bits = SWITCHES.load(Relaxed);
        if bits & READ == 0 { read_environment() } else { Self(bits) }
    }

    /// `TOMA_LOG=1`: every shrink is printed.
    #[inline]
    pub(crate) fn log(self) -> bool {
        self.0 & LOG != 0
    }

    /// `TOMA_DISABLE=1`: bodies run once, at the initial size.
    #[inline]
    pub(crate) fn disable(self) -> bool {
        self.0 & DISABLE != 0
    }

    /// `TOMA_PREDICT=0`: no first size is predicted.
    #[inline]
    pub(crate) fn unpredicted(self) -> bool {
        self.0 & UNPREDICTED != 0
    }

    /// True if an observer sees every call of the process.
    #[inline]
    pub(crate) fn observed(self) -> bool {
        self.0 & OBSERVED != 0
    }

    /// True if any switch is set that gives a call stages.
    #[inline]
    pub(crate) fn anything(self) -> bool {
        self.0 & (DISABLE | HOOKED | WITNESSED | OFFERED) != 0
    }

    /// The switches without [`offered`](Self::offered).
    pub(crate) fn without_offered(self) -> Self {
        Self(self.0 & !OFFERED)
    }

    /// True if an attempt of the process has offered a leaner plan.
    #[inline]
    pub(crate) fn offered(self) -> bool {
        self.0 & OFFERED != 0
    }

    /// True if any switch is set that changes the course of a call.
    #[inline]
    pub(crate) fn changes_calls(self) -> bool {
        self.0 & (DISABLE | HOOKED) != 0
    }

    /// True if a witness observes where attempts run.
    #[inline]
    pub(crate) fn witnessed(self) -> bool {
        self.0 & WITNESSED != 0
    }

    /// True if a hook is registered that frees memory when it runs out.
    #[inline]
    pub(crate) fn hooked(self) -> bool {
        self.0 & HOOKED != 0
    }
}

pub(crate) fn set_observed(observed: bool) {
    set(OBSERVED, observed);
}

pub(crate) fn set_hooked(hooked: bool) {
    set(HOOKED, hooked);
}

pub(crate) fn set_witnessed(witnessed: bool) {
    set(WITNESSED, witnessed);
}

pub(crate) fn set_offered() {
    set(OFFERED, true);
}

fn set(bit: u8, on: bool) {
    if on {
        SWITCHES.fetch_or(bit, Relaxed);
    } else {
        SWITCHES.fetch_and(!bit, Relaxed);
    }
}

#[cold]
fn read_environment() -> Switches {
    let mut bits = READ;
    for (name, bit) in [("TOMA_LOG", LOG), ("TOMA_DISABLE", DISABLE)] {
        if std::env::var(name).is_ok_and(|value| is_on(name, &value)) {
            bits |= bit;
        }
    }
    if std::env::var("TOMA_PREDICT").is_ok_and(|value| is_off(&value)) {
        bits |= UNPREDICTED;
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
