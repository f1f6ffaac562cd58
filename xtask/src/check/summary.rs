//! The table of the steps that ran.

use std::fmt::{self, Write as _};

use anyhow::Result;

use super::spent::Spent;
use crate::table::{Align, table};

/// How a step ended: a short note, or what failed.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) name: &'static str,
    pub(super) result: Result<String>,
    pub(super) spent: Spent,
}

/// The table, then what failed, then how many passed.
pub(super) fn summary(ended: &[Ended], chosen: usize) -> String {
    let mut rows = vec![["step", "seconds", "processor", "result", "note"].map(str::to_owned)];
    rows.extend(ended.iter().map(Ended::row));
    let [wall, processor] = ended.iter().map(|step| step.spent).sum::<Spent>().texts();
    rows.push(["all".to_owned(), wall, processor, String::new(), String::new()]);
    let align = [Align::Left, Align::Right, Align::Right, Align::Left, Align::Left];
    let mut text = format!("\n{}\n", table(align, &rows));
    let failed: Vec<_> =
        ended.iter().filter_map(|step| Some((step.name, step.result.as_ref().err()?))).collect();
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

impl Ended {
    fn row(&self) -> [String; 5] {
        let (word, note) = match &self.result {
            Ok(note) => ("ok", note.clone()),
            Err(_) => ("FAILED", String::new()),
        };
        let [wall, processor] = self.spent.texts();
        [self.name.to_owned(), wall, processor, word.to_owned(), note]
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [wall, processor] = self.spent.texts();
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
        let spent = Spent { wall: 1.25, processor: Some(2.0) };
        Ended { name, result, spent }
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
            summary(&steps, 3),
            "\n\
             step      seconds  processor  result  note\n\
             fmt           1.2        2.0  ok\n\
             layout        1.2        2.0  FAILED\n\
             profiles      1.2        2.0  ok      no fixtures\n\
             all           3.8        6.0\n\
             \n\
             layout:\n  a.rs:3: first\n  b.rs: second\n\
             \n\
             2 passed, 1 failed\n"
        );
    }

    #[test]
    fn steps_that_were_never_reached_are_counted() {
        let text = summary(&[ended("fmt", Err(anyhow::anyhow!("no")))], 3);
        assert!(text.ends_with("0 passed, 1 failed, 2 not run\n"), "{text}");
    }
}
