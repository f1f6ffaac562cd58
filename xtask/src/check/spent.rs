//! Time that passed, and time that processors worked.

use std::time::Instant;

/// When something began.
#[derive(Debug)]
pub(super) struct Watch {
    begun: Instant,
    processor: Option<f64>,
}

impl Watch {
    pub(super) fn start() -> Self {
        Self { begun: Instant::now(), processor: processor() }
    }

    /// Seconds since then: that passed, and that processors worked, where the system tells.
    pub(super) fn seconds(&self) -> [String; 2] {
        let worked = processor().zip(self.processor).map(|(now, before)| format!("{:.1}", now - before));
        [format!("{:.1}", self.begun.elapsed().as_secs_f64()), worked.unwrap_or_else(|| "-".to_owned())]
    }
}

/// Seconds of user and system time of this process and of its children that have ended.
#[cfg(target_os = "linux")]
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn processor() -> Option<f64> {
    let ticks = ticks(&std::fs::read_to_string("/proc/self/stat").ok()?)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(not(target_os = "linux"))]
fn processor() -> Option<f64> {
    None
}

/// Fields 14 to 17 of `/proc/self/stat`: user and system time, own and of children that were waited for.
#[cfg(target_os = "linux")]
fn ticks(stat: &str) -> Option<u64> {
    // The second field, in parentheses, may hold anything.
    let (_, from_third) = stat.rsplit_once(") ")?;
    from_third.split(' ').skip(11).take(4).map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_and_childrens_ticks_are_added_whatever_the_program_is_called() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 90 91 92 93 1 20 300 4000 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(4321));
        assert_eq!(ticks("7 no name"), None);
    }

    #[test]
    fn a_child_that_worked_is_seen() {
        let watch = Watch::start();
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        assert!(std::process::Command::new("sh").args(["-c", script]).status().unwrap().success());
        assert!(processor() > watch.processor, "{watch:?}");
    }
}
