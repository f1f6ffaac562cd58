//! `cargo xtask test`: every check, each as a step with a name.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use xshell::Cmd;

use crate::args::Args;
use crate::project::Project;
use crate::provision::{Provision, build_of};
use crate::steps::{STEPS, Step};
use crate::table::{Align, table};

/// What a step works with.
#[derive(Debug)]
pub(crate) struct Checks<'a> {
    pub(crate) project: &'a Project,
    /// What some steps need besides Rust.
    pub(crate) provision: Provision<'a>,
    /// Stop at the first failure.
    pub(crate) fail_fast: bool,
}

/// How a step ended: a short note, or what failed.
#[derive(Debug)]
struct Ended {
    name: &'static str,
    result: Result<String>,
    elapsed: Duration,
}

pub(crate) fn command(mut args: Args) -> Result<ExitCode> {
    let (list, fail_fast) = (args.flag("--list"), args.flag("--fail-fast"));
    let build = build_of(&mut args)?;
    let steps = choose(STEPS, &args.names()?.without_rest()?)?;
    if list {
        print!("{}", listing(&steps));
        return Ok(ExitCode::SUCCESS);
    }
    let project = Project::find()?;
    let provision = Provision::new(&project, build);
    let ended = run(&Checks { project: &project, provision, fail_fast }, &steps);
    print!("{}", summary(&ended, steps.len()));
    let all_passed = ended.iter().all(|step| step.result.is_ok());
    Ok(if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The steps named, in the order in which they always run; all when none is named.
fn choose<'a>(steps: &'a [Step], names: &[String]) -> Result<Vec<&'a Step>> {
    if let Some(unknown) = names.iter().find(|name| !steps.iter().any(|step| step.name == **name)) {
        let known: Vec<_> = steps.iter().map(|step| step.name).collect();
        bail!("unknown step `{unknown}`; known: {}", known.join(", "));
    }
    let is_chosen = |step: &&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(steps.iter().filter(is_chosen).collect())
}

fn run(checks: &Checks<'_>, steps: &[&Step]) -> Vec<Ended> {
    let mut ended = Vec::new();
    for step in steps {
        ended.push(run_step(checks, step));
        if checks.fail_fast && ended.last().is_some_and(|step| step.result.is_err()) {
            break;
        }
    }
    ended
}

fn run_step(checks: &Checks<'_>, step: &Step) -> Ended {
    checks.project.heading(&format!("{}: {}", step.name, step.checks));
    let begun = Instant::now();
    let result = (step.run)(checks);
    let elapsed = begun.elapsed();
    let outcome = match &result {
        Ok(note) if note.is_empty() => "ok".to_owned(),
        Ok(note) => format!("ok ({note})"),
        Err(error) => format!("FAILED\n{error:#}"),
    };
    eprintln!("== {}: {} s, {outcome}", step.name, seconds(elapsed));
    Ended { name: step.name, result, elapsed }
}

fn listing(steps: &[&Step]) -> String {
    let rows: Vec<_> = steps.iter().map(|step| [step.name.to_owned(), step.checks.to_owned()]).collect();
    table([Align::Left; 2], &rows)
}

/// The table of the steps that ran, what failed, and how many passed.
fn summary(ended: &[Ended], chosen: usize) -> String {
    let mut rows = vec![["step", "seconds", "result", "note"].map(str::to_owned)];
    rows.extend(ended.iter().map(row));
    let mut text = format!("\n{}\n", table([Align::Left, Align::Right, Align::Left, Align::Left], &rows));
    let failed: Vec<_> = ended.iter().filter(|step| step.result.is_err()).collect();
    for Ended { name, result, .. } in &failed {
        let error = result.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}:\n  {}\n", error.replace('\n', "\n  "));
    }
    let _ = write!(text, "{} passed, {} failed", ended.len() - failed.len(), failed.len());
    if ended.len() < chosen {
        let _ = write!(text, ", {} not run", chosen - ended.len());
    }
    text + "\n"
}

fn row(Ended { name, result, elapsed }: &Ended) -> [String; 4] {
    let (word, note) = match result {
        Ok(note) => ("ok", note.clone()),
        Err(_) => ("FAILED", String::new()),
    };
    [(*name).to_owned(), seconds(*elapsed), word.to_owned(), note]
}

fn seconds(elapsed: Duration) -> String {
    format!("{:.1}", elapsed.as_secs_f64())
}

impl Checks<'_> {
    /// Runs every command, so that one failure hides no other, and says how many there were.
    pub(crate) fn run_all<'c>(&self, commands: impl IntoIterator<Item = Cmd<'c>>) -> Result<usize> {
        let (mut count, mut failures) = (0, Vec::new());
        for command in commands {
            count += 1;
            failures.extend(command.run().err().map(|error| error.to_string()));
            if self.fail_fast && !failures.is_empty() {
                break;
            }
        }
        all_clear(&failures).map(|()| count)
    }
}

/// Fails with the problems, one per line, when there are any.
pub(crate) fn all_clear(problems: &[String]) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { bail!(problems.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(name: &'static str) -> Step {
        Step { name, checks: "something", run: |_| Ok(String::new()) }
    }

    const THREE: &[Step] = &[step("one"), step("two"), step("three")];

    fn chosen(names: &[&str]) -> Result<Vec<&'static str>> {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        Ok(choose(THREE, &names)?.iter().map(|step| step.name).collect())
    }

    fn ended(name: &'static str, result: Result<String>) -> Ended {
        Ended { name, result, elapsed: Duration::from_millis(1250) }
    }

    #[test]
    fn steps_run_once_and_in_their_own_order() {
        assert_eq!(chosen(&[]).unwrap(), ["one", "two", "three"]);
        assert_eq!(chosen(&["three", "one", "three"]).unwrap(), ["one", "three"]);
        let error = chosen(&["one", "tow"]).unwrap_err();
        assert_eq!(error.to_string(), "unknown step `tow`; known: one, two, three");
    }

    #[test]
    fn the_steps_have_different_names() {
        let names: std::collections::HashSet<_> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn the_summary_shows_what_failed_and_counts() {
        let steps = [
            ended("fmt", Ok(String::new())),
            ended(
                "layout",
                all_clear(&["a.rs:3: first".into(), "b.rs: second".into()]).map(|()| String::new()),
            ),
            ended("profiles", Ok("no fixtures".into())),
        ];
        assert_eq!(
            summary(&steps, 3),
            "\n\
             step      seconds  result  note\n\
             fmt           1.2  ok\n\
             layout        1.2  FAILED\n\
             profiles      1.2  ok      no fixtures\n\
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

    #[test]
    fn nothing_wrong_is_no_failure() {
        assert!(all_clear(&[]).is_ok());
    }
}
