//! A progress bar for long calls, drawn by indicatif.
//!
//! # Why
//!
//! With `TOMA_LOG=1` the bar shows nothing, because the log writes to standard error about the same events.

mod figures;
mod screen;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::figures::Progress;
use self::screen::{Screen, ScreenLine};
use super::{Answer, Event, EventKind, Observer};
use crate::switches::Switches;

/// Shows the progress of each call on standard error: items done, rate, time left, the current step and the number of
/// times memory ran out.
///
/// Each shrink gets a line of its own that stays on the screen. The bar disappears when its call is over
/// ([`report::last`](super::report::last) has the figures). One bar serves any number of calls, one after another,
/// nested or on several threads: each has its own line while it runs. Calls that follow each other quicker than the eye
/// show none.
///
/// If standard error is no terminal, lines for a log are printed instead of a bar: one for each shrink, and one every
/// half minute for calls that take longer than that.
///
/// With `TOMA_LOG=1` it shows nothing: the log prints the same, and would tear the bar apart.
///
/// The bar moves when an attempt ends. No thread redraws it in between, because a thread takes memory of its own.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{NoCache, execute, observe::ProgressBar};
///
/// let bar = ProgressBar::new();
/// let mut squares = vec![0; 1000];
/// execute::with::<NoCache>().observer(&bar).name("squares").range(0..1000, 64, |start, end| {
///     for i in start..end {
///         squares[i] = i * i;
///     }
/// });
/// ```
///
/// For every call of the program: `let _bar = everywhere(ProgressBar::new());`, see
/// [`everywhere`](super::everywhere).
pub struct ProgressBar {
    state: Mutex<OnScreen>,
    /// `TOMA_LOG=1` is set: the log prints the same events, so the bar shows nothing.
    beside_log: bool,
}

struct OnScreen {
    screen: Screen,
    calls: Vec<CallBar>,
    pace: RefreshPace,
    /// The last call that ended was over before a user could have read its line.
    last_was_quick: bool,
}

/// A running call.
struct CallBar {
    id: u64,
    progress: Progress,
    line: ScreenLine,
    started: Instant,
    refreshed: Instant,
    /// The shortest time from `refreshed` to the next refresh.
    period: Duration,
}

/// The periods of the display.
#[derive(Clone, Copy)]
struct RefreshPace {
    /// Between two drawings of a bar.
    draw: Duration,
    /// Between two lines in a log.
    log: Duration,
    /// A call that takes less counts as quick: the next call then has to run this long before it gets a line.
    quick: Duration,
}

impl ProgressBar {
    /// Creates a bar on standard error; if that is no terminal, it prints lines for a log.
    pub fn new() -> Self {
        let pace = RefreshPace {
            draw: Duration::from_millis(50),
            log: Duration::from_secs(30),
            quick: Duration::from_millis(100),
        };
        Self { beside_log: Switches::load().has(Switches::LOG), ..Self::on(Screen::stderr(), pace) }
    }

    /// Prints a line above the bar. An ordinary `println!` while the bar is there would leave parts
    /// of it on the screen.
    pub fn println(&self, line: impl AsRef<str>) {
        self.state().screen.print(line.as_ref());
    }

    fn on(screen: Screen, pace: RefreshPace) -> Self {
        let state = OnScreen { screen, calls: Vec::new(), pace, last_was_quick: false };
        Self { state: Mutex::new(state), beside_log: false }
    }

    fn state(&self) -> MutexGuard<'_, OnScreen> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ProgressBar {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for ProgressBar {
    fn observe(&self, event: &Event<'_>) {
        if !self.beside_log {
            self.state().observe(event);
        }
    }
}

/// For a bar that an annotated function takes by reference: `observer = bar`.
impl Observer for &ProgressBar {
    fn observe(&self, event: &Event<'_>) {
        (**self).observe(event);
    }
}

impl fmt::Debug for ProgressBar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.state().calls.len();
        f.debug_struct("ProgressBar").field("running", &running).finish_non_exhaustive()
    }
}

impl OnScreen {
    fn observe(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Started { length: Some(0), .. } => {}
            EventKind::Started { start, length, .. } => {
                self.begin(event.call, Progress::new(event.name, start, length));
            }
            EventKind::Finished { .. } => self.end(event.call),
            kind => self.learn(event.call, &kind),
        }
    }

    fn begin(&mut self, id: u64, progress: Progress) {
        let period = match (&self.screen, self.last_was_quick) {
            (Screen::Log(_), _) => self.pace.log,
            (Screen::Terminal(_), true) => self.pace.quick,
            (Screen::Terminal(_), false) => Duration::ZERO,
        };
        let now = Instant::now();
        self.calls.push(CallBar {
            id,
            progress,
            line: ScreenLine::None,
            started: now,
            refreshed: now,
            period,
        });
    }

    fn learn(&mut self, id: u64, kind: &EventKind<'_>) {
        // The bar was registered in the middle of this call, and knows too little to show it.
        let Some(call) = self.calls.iter_mut().find(|call| call.id == id) else { return };
        let note = call.progress.learn(kind);
        if let Some(note) = &note {
            self.screen.print(note);
        }
        let now = Instant::now();
        let is_stale = note.is_some() && matches!(call.line, ScreenLine::Drawn(_));
        if matches!(kind, EventKind::Answered { answer: Answer::GiveUp(_), .. }) {
            // Cleared now, because nothing can be drawn once the panic of a body continues.
            self.screen.clear(&mut call.line);
        } else if is_stale || now - call.refreshed >= call.period {
            self.screen.refresh(&mut call.line, &call.progress);
            call.refreshed = now;
            call.period = if let Screen::Log(_) = self.screen { self.pace.log } else { self.pace.draw };
        }
    }

    fn end(&mut self, id: u64) {
        let Some(at) = self.calls.iter().position(|call| call.id == id) else { return };
        let mut call = self.calls.remove(at);
        self.last_was_quick = call.started.elapsed() < self.pace.quick;
        self.screen.end(&mut call.line, &call.progress);
    }
}
