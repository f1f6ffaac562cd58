//! The whole job, window by window.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::num::NonZeroUsize;
use std::path::Path;

use bytesize::ByteSize;
use tch::Device;
use toma::report;
use toma::torch::cpu;
use toma::torch::offload::Manager;

use crate::arguments::{Arguments, PolicyName};
use crate::compare::Ways;
use crate::embedder::Embedder;
use crate::memory::Memory;
use crate::model::Model;
use crate::output;
use crate::search::Nearest;
use crate::texts::Words;
use crate::{Result, check, place, print};

/// Lines that are sorted by length together. More would make batches hardly more uniform.
pub(crate) const WINDOW: usize = 65_536;

/// Parts that are loaded once.
pub(crate) struct Parts {
    pub(crate) words: Words,
    pub(crate) model: Model,
    pub(crate) device: Device,
    /// Manager of a model that is only partly in memory.
    manager: Option<Manager>,
}

/// Runs the command line.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // From the first tensor on, because later the model's bytes could not be separated.
    cpu::count();
    toma::torch::Device::existing(arguments.device)?;
    let lines = arguments.input.as_deref().map(open).transpose()?;
    let most = arguments.lines.map_or(usize::MAX, NonZeroUsize::get);
    let lines = lines.map(|lines| lines.take(most));
    arguments.output.as_deref().map(output::check).transpose()?;
    arguments.svg.as_deref().map(|path| place::check("svg", path)).transpose()?;
    let model = arguments.model.as_ref().ok_or(
        "model: no folder is given; `cargo xtask run embed -- ARGUMENTS` fetches the model and gives it, \
         or say --model DIR or set MINILM_DIR",
    )?;
    let device = toma::torch::Device::new(arguments.device);
    let manager = arguments.offload.map(|bytes| Manager::new(&device).budget(bytes.as_u64()));
    let _entered = manager.as_ref().map(Manager::enter).transpose()?;
    let parts = Parts::load(model, arguments.device, manager)?;
    match lines {
        Some(lines) if arguments.park => {
            parts.park("before")?;
            embed(arguments, &parts, lines)?;
            parts.park("after")
        }
        Some(lines) => embed(arguments, &parts, lines),
        None => check::run(&parts, arguments.budget, None),
    }
}

impl Parts {
    pub(crate) fn load(folder: &Path, device: Device, manager: Option<Manager>) -> Result<Self> {
        let words = Words::read(&folder.join("tokenizer.json"))?;
        let model = match &manager {
            Some(manager) => Model::offloaded(folder, device, manager)?,
            None => Model::load(folder, device)?,
        };
        Ok(Self { words, model, device, manager })
    }

    /// Parks the manager, so that another program can use the device, and resumes.
    fn park(&self, when: &str) -> Result<()> {
        let Some(manager) = &self.manager else { return Ok(()) };
        let parked = manager.park()?;
        eprintln!("  parked {when}: {}; {}", ByteSize(parked.bytes()), parked.stays());
        Ok(parked.resume()?)
    }

    fn memory(&self, arguments: &Arguments) -> Result<Memory> {
        match (&self.manager, arguments.offload) {
            (Some(manager), Some(bytes)) => Memory::offloaded(self.device, bytes, manager),
            _ => Memory::limit(self.device, arguments.budget),
        }
    }
}

/// Opens the lines of a file, or of standard input if the path is `-`.
fn open(path: &Path) -> Result<Box<dyn Iterator<Item = Result<String>>>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(lines("standard input".to_owned(), io::stdin().lock())));
    }
    let name = format!("input {}", path.display());
    let file = File::open(path).map_err(|error| format!("{name}: {error}"))?;
    Ok(Box::new(lines(name, BufReader::new(file))))
}

fn lines(name: String, input: impl BufRead) -> impl Iterator<Item = Result<String>> {
    let numbered = input.lines().zip(1..);
    numbered.map(move |(line, number)| line.map_err(|error| format!("{name}, line {number}: {error}").into()))
}

fn embed(
    arguments: &Arguments,
    parts: &Parts,
    mut lines: impl Iterator<Item = Result<String>>,
) -> Result<()> {
    let memory = parts.memory(arguments)?;
    let mut nearest = nearest(arguments, parts, &memory)?;
    let mut ways = Ways::new(arguments, &parts.model, &memory);
    let (mut before, mut kept) = (0, Vec::new());
    loop {
        let window = lines.by_ref().take(WINDOW).collect::<Result<Vec<_>>>()?;
        if window.is_empty() {
            break;
        }
        let rows = ways.embed(&parts.words.tokens(&window)?)?;
        if arguments.check && before == 0 {
            check::run(parts, arguments.budget, Some(&window))?;
        }
        if let Some(nearest) = &mut nearest {
            nearest.look(before, &window, &rows);
        }
        if arguments.output.is_some() {
            kept.extend(rows);
        }
        before += window.len();
    }
    if before == 0 {
        // An empty input is no error, but seldom intended.
        eprintln!("the input is empty, so there are 0 rows");
    }
    for hit in nearest.iter().flat_map(|nearest| &nearest.hits) {
        print(format_args!("{:.4}  line {:>6}  {}", hit.score, hit.line, hit.text))?;
    }
    ways.print()?;
    if let Some(path) = &arguments.svg {
        let picture = report::svg(ways.reports());
        fs::write(path, picture).map_err(|error| format!("svg {}: {error}", path.display()))?;
    }
    eprintln!("  peak: {} of tensors, model included; {memory}", memory.peak());
    if let Some(manager) = &parts.manager {
        eprintln!("  offload: {}", manager.report());
    }
    // The budget does not cover the tensor of all rows.
    drop(memory);
    arguments.output.as_ref().map_or(Ok(()), |path| output::write(path, &kept, parts.model.width()))
}

fn nearest(arguments: &Arguments, parts: &Parts, memory: &Memory) -> Result<Option<Nearest>> {
    let Some(query) = &arguments.query else { return Ok(None) };
    let mut embedder = Embedder::new(&parts.model, memory, PolicyName::Halve.policy(), 1024);
    let query = embedder.embed(&parts.words.tokens(&[query])?)?;
    Ok(Some(Nearest::new(query, arguments.top.get())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_counts_and_what_is_not_utf8_is_named_by_its_line() {
        let read = |text: &'static [u8]| lines("text".to_owned(), text).collect::<Result<Vec<_>>>();
        assert_eq!(read(b"").unwrap(), [""; 0]);
        assert_eq!(read(b"\n").unwrap(), [""]);
        assert_eq!(read(b"a\n\n b \r\nc\rd").unwrap(), ["a", "", " b ", "c\rd"]);
        let error = read(b"good\nba\xffd\n").unwrap_err().to_string();
        assert!(error.starts_with("text, line 2: ") && error.contains("UTF-8"), "{error}");
        let error = open(Path::new("no/such/file")).err().unwrap().to_string();
        assert!(error.starts_with("input no/such/file: "), "{error}");
    }
}
