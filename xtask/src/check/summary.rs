//! The table of the steps that ran.

use std::fmt::{self, Write as _};

use anyhow::Result;

/// How a step ended: a short note, or what failed.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) name: &'static str,
    pub(super) result: Result<String>,
    /// Seconds that passed, and that processors worked.
    pub(super) seconds: [String; 2],
}

/// The table, then what failed, then how many passed; with the seconds of all, and how many steps were chosen.
pub(super) fn summary(ended: &[Ended], seconds: &[String; 2], chosen: usize) -> String {
    let mut text = "\n".to_owned() + &line("step", ["seconds", "processor"], "result", "note");
    let failed: Vec<_> =
        ended.iter().filter_map(|step| Some((step.name, step.result.as_ref().err()?))).collect();
    for Ended { name, result, seconds } in ended {
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        let note = result.as_deref().unwrap_or_default();
        text += &line(name, seconds.each_ref().map(String::as_str), word, note);
    }
    text += &(line("all", seconds.each_ref().map(String::as_str), "", "") + "\n");
    for (name, error) in &failed {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}:\n  {}\n", format!("{error:#}").replace('\n', "\n  "));
    }
    let _ = write!(text, "{} passed, {} failed", ended.len() - failed.len(), failed.len());
    if ended.len() < chosen {
        let _ = write!(text, ", {} not run", chosen - ended.len());
    }
    text + "\n"
}

fn line(step: &str, [wall, processor]: [&str; 2], result: &str, note: &str) -> String {
    let line = format!("{step:<14}  {wall:>7}  {processor:>9}  {result:<6}  {note}");
    line.trim_end().to_owned() + "\n"
}

impl Ended {
    pub(super) fn failed(&self) -> bool {
        self.result.is_err()
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [wall, processor] = &self.seconds;
        write!(f, "{}: {wall} s, {processor} s of processor time, ", self.name)?;
        match &self.result {
            Ok(note) if note.is_empty() => write!(f, "ok"),
            Ok(note) => write!(f, "ok ({note})"),
            Err(error) => write!(f, "FAILED\n{error:#}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::all_clear;

    fn ended(name: &'static str, result: Result<String>) -> Ended {
        Ended { name, result, seconds: ["1.2", "2.0"].map(str::to_owned) }
    }

    #[test]
    fn the_summary_shows_what_failed_and_counts() {
        let problems = all_clear(&["a.rs:3: first".into(), "b.rs: second".into()]);
        let steps = [
            ended("fmt", Ok(String::new())),
            ended("layout", problems.map(|()| String::new())),
            ended("profiles", Ok("no fixtures".into())),
        ];
        assert_eq!(
            summary(&steps, &["3.8", "-"].map(str::to_owned), 3),
            "\n\
             step            seconds  processor  result  note\n\
             fmt                 1.2        2.0  ok\n\
             layout              1.2        2.0  FAILED\n\
             profiles            1.2        2.0  ok      no fixtures\n\
             all                 3.8          -\n\
             \n\
             layout:\n  a.rs:3: first\n  b.rs: second\n\
             \n\
             2 passed, 1 failed\n"
        );
    }

    #[test]
    fn steps_that_were_never_reached_are_counted() {
        let text = summary(&[ended("fmt", Err(anyhow::anyhow!("no")))], &["1", "1"].map(str::to_owned), 3);
        assert!(text.ends_with("0 passed, 1 failed, 2 not run\n"), "{text}");
    }
}
