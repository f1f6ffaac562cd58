//! The whole job, window by window.

use std::fs;
use std::io::BufRead;
use std::path::PathBuf;

use tch::Device;
use toma::observe::{Report, report};

use crate::Result;
use crate::arguments::Arguments;
use crate::check;
use crate::compare::Fixed;
use crate::config::Config;
use crate::embedder::Embedder;
use crate::lines::{Window, Windows};
use crate::memory::{self, Memory};
use crate::model::Model;
use crate::output::{RowFile, check_place};
use crate::policies::Policies;
use crate::say::say;
use crate::search::Nearest;
use crate::summary::{Summary, mebibytes};
use crate::tokens::Words;

/// What is loaded once.
pub(crate) struct Parts {
    pub(crate) words: Words,
    pub(crate) model: Model,
    pub(crate) device: Device,
}

/// Where rows go.
struct Sinks {
    output: Option<RowFile>,
    nearest: Option<Nearest>,
}

/// Where rows come from.
enum Way<'a> {
    Alone,
    BesideFixed(Fixed),
    ByEach(Policies<'a>),
}

/// Does what the command line says.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    memory::count();
    Memory::check(arguments.device, arguments.budget)?;
    let windows = arguments.input.as_deref().map(Windows::open).transpose()?;
    let folder = model_folder(arguments)?;
    let config = Config::read(&folder.join("config.json"))?;
    let width = usize::try_from(config.hidden_size)?;
    let output = arguments.output.as_deref().map(|path| RowFile::create(path, width)).transpose()?;
    arguments.svg.as_deref().map(|path| check_place("svg", path)).transpose()?;
    let words = Words::read(&folder.join("tokenizer.json"), &config)?;
    let model = Model::load(&folder, config, arguments.device)?;
    let parts = Parts { words, model, device: arguments.device };
    match windows {
        Some(windows) => embed(arguments, &parts, windows, output),
        None => check::run(&parts, arguments.budget, None),
    }
}

fn model_folder(arguments: &Arguments) -> Result<PathBuf> {
    let named = arguments
        .model
        .clone()
        .or_else(|| std::env::var_os("MINILM_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from));
    let folder = named.ok_or(
        "model: no folder is given; `cargo xtask run embed -- ARGUMENTS` fetches the model and gives it, \
         or say --model DIR or set MINILM_DIR",
    )?;
    if folder.is_dir() {
        Ok(folder)
    } else {
        Err(format!("model {}: no such folder", folder.display()).into())
    }
}

fn embed(
    arguments: &Arguments,
    parts: &Parts,
    windows: Windows<impl BufRead>,
    output: Option<RowFile>,
) -> Result<()> {
    let memory = Memory::limit(arguments.device, arguments.budget)?;
    let embedder = Embedder::new(&parts.model, &memory, arguments.policy.policy(), arguments.batch());
    let nearest = nearest(arguments, parts, &embedder)?;
    let mut sinks = Sinks { output, nearest };
    let mut way = Way::of(arguments, &parts.model, &memory);
    let mut summary = Summary::default();
    for window in windows {
        let window = window?;
        let texts = parts.words.tokens(&window.lines)?;
        let rows = match &mut way {
            Way::Alone => embedder.embed(&texts, &mut summary)?,
            Way::BesideFixed(fixed) => fixed.embed(&embedder, &texts, &mut summary)?,
            Way::ByEach(policies) => policies.embed(&texts, &mut summary)?,
        };
        if arguments.check && window.before == 0 {
            check::run(parts, arguments.budget, Some(&window.lines))?;
        }
        sinks.take(&window, &rows)?;
    }
    sinks.finish(&summary)?;
    way.print(&summary)?;
    if let Some(path) = &arguments.svg {
        let picture = report::svg(way.reports(&summary));
        fs::write(path, picture).map_err(|error| format!("svg {}: {error}", path.display()))?;
    }
    let peak_bytes = summary.peak_bytes.max(memory.model_bytes);
    eprintln!("  peak: {:.1} MiB of tensors, model included; {memory}", mebibytes(peak_bytes));
    Ok(())
}

fn nearest(arguments: &Arguments, parts: &Parts, embedder: &Embedder<'_>) -> Result<Option<Nearest>> {
    let Some(query) = &arguments.query else { return Ok(None) };
    let texts = parts.words.tokens(&[query])?;
    let query = embedder.embed(&texts, &mut Summary::default())?;
    Ok(Some(Nearest::new(query, arguments.top.get())))
}

impl<'a> Way<'a> {
    fn of(arguments: &Arguments, model: &'a Model, memory: &'a Memory) -> Self {
        let policies = &*arguments.compare_policies;
        match (arguments.compare, policies) {
            (true, _) => Self::BesideFixed(Fixed::default()),
            (false, []) => Self::Alone,
            (false, _) => Self::ByEach(Policies::new(model, memory, policies, arguments.batch())),
        }
    }

    fn print(&self, summary: &Summary) -> Result<()> {
        match self {
            Self::Alone => {}
            Self::BesideFixed(fixed) => fixed.print(summary)?,
            Self::ByEach(policies) => return policies.print(),
        }
        eprint!("{summary}");
        Ok(())
    }

    /// Of all calls.
    fn reports<'s>(&'s self, summary: &'s Summary) -> Vec<&'s Report> {
        match self {
            Self::Alone | Self::BesideFixed(_) => summary.reports.iter().collect(),
            Self::ByEach(policies) => policies.reports().collect(),
        }
    }
}

impl Sinks {
    fn take(&mut self, window: &Window, rows: &[f32]) -> Result<()> {
        if let Some(output) = &mut self.output {
            output.append(rows)?;
        }
        if let Some(nearest) = &mut self.nearest {
            nearest.look(window, rows);
        }
        Ok(())
    }

    fn finish(self, summary: &Summary) -> Result<()> {
        if let Some(output) = self.output {
            output.finish()?;
        }
        if let Some(remark) = remark(summary.lines) {
            eprintln!("{remark}");
        }
        for hit in self.nearest.iter().flat_map(|nearest| &nearest.hits) {
            say(format_args!("{:.4}  line {:>6}  {}", hit.score, hit.line, hit.text))?;
        }
        Ok(())
    }
}

/// Nothing is no mistake, but seldom what was meant.
fn remark(lines: usize) -> Option<&'static str> {
    (lines == 0).then_some("the input is empty, so there are 0 rows")
}

#[cfg(test)]
mod tests {
    use super::remark;

    #[test]
    fn no_lines_are_remarked_whatever_was_asked_for() {
        assert!(remark(0).is_some_and(|remark| remark.starts_with("the input is empty")));
        assert_eq!(remark(1), None);
    }
}
