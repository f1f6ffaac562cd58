//! Tests of the whole job with the real model, which is in the folder `MINILM_DIR`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytesize::ByteSize;
use clap::Parser as _;
use tch::{Device, Tensor};
use tempfile::TempDir;
use toma::{NoCache, execute};

use crate::arguments::{Arguments, PolicyName};
use crate::check::fixed;
use crate::embedder::{Embedder, VALUE, compare};
use crate::job::{self, Parts};
use crate::memory::Memory;

/// Lets other tests that make tensors wait: a budget belongs to the whole process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    toma::torch::cpu::count();
    guard
}

/// A folder for one test, which is removed when the test ends.
pub(crate) fn scratch() -> TempDir {
    TempDir::with_prefix("toma-embed-").unwrap()
}

/// The model's folder, or a message that the test is skipped. On machines that check changes (`CI`), where everything
/// must be available, a missing folder is a failure.
///
/// The message bypasses the capture of the test harness, which hides the output of tests that pass.
fn model_folder() -> Option<PathBuf> {
    let folder = set("MINILM_DIR").map(PathBuf::from);
    if folder.is_none() {
        let reason = "MINILM_DIR does not say where the model is, `cargo xtask test` provides it";
        assert!(set("CI").is_none(), "{reason}");
        let test = std::thread::current();
        let _ = writeln!(io::stderr(), "skipped: {}: {reason}", test.name().unwrap_or("a test"));
    }
    folder
}

fn set(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

pub(crate) fn parts() -> Option<Parts> {
    Some(Parts::load(&model_folder()?, Device::Cpu, None).unwrap())
}

/// Runs the job on `text`, with an output file. Returns the error's text if it fails.
fn run(text: &[u8], more: &[&str]) -> Result<Tensor, String> {
    let scratch = scratch();
    let [input, output] = ["input.txt", "rows.npy"].map(|name| scratch.path().join(name));
    fs::write(&input, text).unwrap();
    let files = ["--input", input.to_str().unwrap(), "--output", output.to_str().unwrap()];
    let arguments = Arguments::parse_from(["embed"].iter().chain(&files).chain(more));
    let result = job::run(&arguments).map_err(|error| error.to_string());
    assert_eq!(output.exists(), result.is_ok());
    result.map(|()| Tensor::read_npy(output).unwrap())
}

#[test]
fn texts_get_their_marks_are_cut_at_256_and_not_padded() {
    let _alone = alone();
    let Some(parts) = parts() else { return };
    let texts = [String::new(), "word ".repeat(254), "word ".repeat(300), "hello world".to_owned()];
    let tokens = parts.words.tokens(&texts).unwrap();
    let lengths: Vec<usize> = tokens.iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 256, 256, 4]);
    assert_eq!(tokens[3], [101, 7592, 2088, 102]);
}

#[test]
fn at_most_a_tenth_of_a_batch_is_padding() {
    let _alone = alone();
    let Some(parts) = parts() else { return };
    let lines: Vec<&str> = include_str!("../data/lines.txt").lines().collect();
    let texts = parts.words.tokens(&lines).unwrap();
    let (mut padded, tokens) = (0, texts.iter().map(Vec::len).sum::<usize>());
    let form = execute::with::<NoCache>().by_padded_cost(|text| texts[text].len()).in_buckets();
    let count = |batch: &[usize]| {
        padded += batch.len() * texts[batch[0]].len();
        vec![(); batch.len()]
    };
    assert_eq!(form.map(0..texts.len(), 1024, count).len(), texts.len());
    println!("{tokens} of {padded} tokens are no padding");
    assert!((padded - tokens) * 10 <= padded, "{tokens} of {padded}");
}

#[test]
fn neighbors_in_a_batch_change_nothing() {
    let _alone = alone();
    let Some(parts) = parts() else { return };
    let texts = ["", "one", "a text of several words", &"long ".repeat(200), "another one"];
    let texts = parts.words.tokens(&texts).unwrap();
    let single = fixed(&parts, &texts, 1).unwrap();
    let memory = Memory::limit(Device::Cpu, None).unwrap();
    for batch in [2, 3, 5] {
        let mut sorted = Embedder::new(&parts.model, &memory, PolicyName::Halve.policy(), batch * 4);
        for rows in [fixed(&parts, &texts, batch).unwrap(), sorted.embed(&texts).unwrap()] {
            assert_eq!(rows.len(), single.len());
            compare("value", &rows, &single, VALUE).unwrap();
        }
    }
    let (first, others) = single.split_at(parts.model.width());
    assert!((first.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-5);
    assert!(compare("value", first, others, 0.01).is_err());
}

#[test]
fn a_size_that_was_found_before_the_first_batch_serves_the_next_window() {
    let _alone = alone();
    let Some(Parts { words, model, .. }) = parts() else { return };
    let texts = words.tokens(&vec!["a text of some words, but not of too many of them"; 64]).unwrap();
    let model_bytes = Memory::limit(Device::Cpu, None).unwrap().model_bytes;
    let memory = Memory::limit(Device::Cpu, Some(ByteSize(model_bytes + (4 << 20)))).unwrap();
    let mut embedder = Embedder::new(&model, &memory, PolicyName::Halve.policy(), 1024);
    let rows = embedder.embed(&texts).unwrap();
    assert_eq!(embedder.embed(&texts).unwrap(), rows);
    assert_eq!((embedder.summary.out_of_memory(), embedder.summary.lines()), (0, 128));
    let all = 64 * texts[0].len();
    assert!(embedder.summary.reports().all(|report| report.start < all), "{}", embedder.summary);
    assert!(memory.peak().0 > model_bytes && memory.peak().0 <= model_bytes + (4 << 20));
}

#[test]
fn a_peak_that_was_noted_outlives_the_reset_of_a_policy_that_measures() {
    let _alone = alone();
    let memory = Memory::limit(Device::Cpu, None).unwrap();
    drop(Tensor::zeros([1 << 20], (tch::Kind::Float, Device::Cpu)));
    memory.note_peak();
    memory.device().reset_peak();
    memory.note_peak();
    assert_eq!(memory.peak().0, memory.model_bytes + (4 << 20));
}

#[test]
fn every_line_has_its_row_in_input_order() {
    let _alone = alone();
    if model_folder().is_none() {
        return;
    }
    let rows = run(b"cake\n\nmemory\r\ncake", &["--batch", "2"]).unwrap();
    assert_eq!(rows.size(), [4, 384]);
    let same = |a, b| (rows.get(a) - rows.get(b)).abs().max().double_value(&[]) < 1e-5;
    assert!(same(0, 3) && !same(0, 1) && !same(0, 2) && !same(1, 2));
    assert_eq!(run(b"", &["--query", "cake"]).unwrap().size(), [0, 384]);
    assert_eq!(run(b"cake\nmemory\ncake", &["--lines", "2"]).unwrap().size(), [2, 384]);
}

#[test]
fn too_small_a_budget_is_an_error_with_its_figures() {
    let _alone = alone();
    if model_folder().is_none() {
        return;
    }
    let error = run(b"text", &["--budget", "1MB"]).unwrap_err();
    assert!(error.starts_with("budget 1000000 bytes: the model alone needs 9"), "{error}");
    let needs: u64 = error.split(' ').nth(7).unwrap().parse().unwrap();
    let barely = (needs + 10_000).to_string();
    let error = run("word ".repeat(300).as_bytes(), &["--budget", &barely]).unwrap_err();
    let text = "not even one text of up to 256 tokens fits beside the model: ";
    assert!(error.contains(text) && error.lines().count() == 1, "{error}");
}

#[test]
fn weights_that_stay_in_their_file_make_the_same_vectors() {
    let _alone = alone();
    if model_folder().is_none() {
        return;
    }
    let text = "some words\nand others, of another length\nmore\n".repeat(5);
    let right = run(text.as_bytes(), &["--batch", "4"]).unwrap();
    let rows = run(text.as_bytes(), &["--batch", "4", "--offload", "24MB", "--park"]).unwrap();
    let [rows, right] = [rows, right].map(|rows| Vec::<f32>::try_from(rows.flatten(0, -1)).unwrap());
    assert_eq!(rows.len(), right.len());
    compare("value", &rows, &right, VALUE).unwrap();
    let error = run(b"text", &["--offload", "2MB"]).unwrap_err();
    assert!(error.contains("out of memory"), "{error}");
}

#[test]
fn policies_are_compared_and_drawn() {
    let _alone = alone();
    if model_folder().is_none() {
        return;
    }
    let scratch = scratch();
    let picture = scratch.path().join("sizes.svg");
    let more = ["--compare-policies=halve,adaptive", "--svg", picture.to_str().unwrap(), "--batch", "8"];
    let rows = run("some words\n".repeat(40).as_bytes(), &more).unwrap();
    assert_eq!(rows.size(), [40, 384]);
    let picture = fs::read_to_string(picture).unwrap();
    assert!(["halve", "adaptive", "time spent in attempts"].iter().all(|text| picture.contains(text)));
    let error = run(b"text", &["--svg", "no/such/folder/a.svg"]).unwrap_err();
    assert_eq!(error, "svg no/such/folder/a.svg: there is no folder no/such/folder");
}

#[test]
fn an_error_on_the_way_leaves_no_output() {
    let _alone = alone();
    if model_folder().is_none() {
        return;
    }
    assert!(run(b"good\n\xff", &[]).unwrap_err().contains(", line 2: "));
}

#[test]
fn a_model_that_is_not_there_is_named() {
    let _alone = alone();
    let error = run(b"text", &["--model", "no/such/model"]).unwrap_err();
    assert!(error.starts_with("no/such/model/tokenizer.json: No such file"), "{error}");
}
