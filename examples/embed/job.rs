//! The whole job, window by window.

use std::io::BufRead;
use std::path::PathBuf;

use tch::Device;

use crate::Result;
use crate::arguments::Arguments;
use crate::check;
use crate::compare::Fixed;
use crate::config::Config;
use crate::embedder::Embedder;
use crate::lines::Windows;
use crate::memory::{self, Memory};
use crate::model::Model;
use crate::output::RowFile;
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
    fixed: Option<Fixed>,
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
    let mut sinks = Sinks { output, nearest, fixed: arguments.compare.then(Fixed::default) };
    let mut summary = Summary::default();
    for window in windows {
        let window = window?;
        let texts = parts.words.tokens(&window.lines)?;
        let rows = match &mut sinks.fixed {
            Some(fixed) => fixed.embed(&embedder, &texts, &mut summary)?,
            None => embedder.embed(&texts, &mut summary)?,
        };
        if arguments.check && window.before == 0 {
            check::run(parts, arguments.budget, Some(&window.lines))?;
        }
        if let Some(output) = &mut sinks.output {
            output.append(&rows)?;
        }
        if let Some(nearest) = &mut sinks.nearest {
            nearest.look(&window, &rows);
        }
    }
    sinks.finish(&summary)?;
    eprint!("{summary}");
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

impl Sinks {
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
        if let Some(fixed) = self.fixed {
            fixed.print(summary)?;
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
