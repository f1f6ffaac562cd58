use std::io::{self, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::figures::Progress;

/// The destination of progress.
pub(super) enum Screen {
    Terminal(MultiProgress),
    /// Standard error is no terminal: nobody watches it, but it may be read later.
    Log(Box<dyn Write + Send>),
}

/// The display of one call.
#[derive(Default)]
pub(super) enum ScreenLine {
    #[default]
    None,
    Drawn(ProgressBar),
    Logged,
}

impl Screen {
    pub(super) fn stderr() -> Self {
        Self::to(ProgressDrawTarget::stderr(), io::stderr())
    }

    /// Shows progress on the terminal, or in the log when there is none.
    pub(super) fn to(terminal: ProgressDrawTarget, log: impl Write + Send + 'static) -> Self {
        if terminal.is_hidden() {
            return Self::Log(Box::new(log));
        }
        Self::Terminal(MultiProgress::with_draw_target(terminal))
    }

    /// Prints a line that stays. A failure to print is ignored, because it cannot be reported anywhere.
    pub(super) fn print(&mut self, line: &str) {
        let _ = match self {
            Self::Terminal(lines) => lines.println(line),
            Self::Log(log) => writeln!(log, "{line}"),
        };
    }

    /// Shows the current progress of the call.
    pub(super) fn refresh(&mut self, line: &mut ScreenLine, progress: &Progress) {
        let Self::Terminal(lines) = self else {
            *line = ScreenLine::Logged;
            return self.print(&progress.line());
        };
        let (figures, position) = (progress.figures(), progress.done as u64);
        if let ScreenLine::Drawn(bar) = line {
            bar.set_position(position);
            bar.set_message(figures);
        } else {
            let bar = lines.add(bar(progress).with_message(figures).with_position(position));
            bar.tick();
            *line = ScreenLine::Drawn(bar);
        }
    }

    /// Ends the display of the call. A log that has shown its progress also shows its end.
    pub(super) fn end(&mut self, line: &mut ScreenLine, progress: &Progress) {
        if matches!(line, ScreenLine::Logged) {
            self.print(&progress.line());
        }
        self.clear(line);
    }

    pub(super) fn clear(&mut self, line: &mut ScreenLine) {
        if let (Self::Terminal(lines), ScreenLine::Drawn(bar)) = (self, std::mem::take(line)) {
            bar.finish_and_clear();
            lines.remove(&bar);
        }
    }
}

fn bar(progress: &Progress) -> ProgressBar {
    let length = progress.length.map(|length| length as u64);
    let items = if length.is_some() { "{wide_bar} {pos}/{len} · " } else { "" };
    let style = ProgressStyle::with_template(&format!("{{prefix}} {items}{{msg}}"))
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden())
        .with_style(style)
        .with_prefix(progress.name.clone())
}
