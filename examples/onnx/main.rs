//! Detects the types of files, by magika's model in ONNX Runtime, under a real memory limit: `cargo xtask run onnx`.
//!
//! All files at once do not fit. The batch shrinks until it does, and the model gives each file the same label as for
//! the file alone.

mod files;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut2, Ix2, s};
use ort::ep::CPU;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::value::TensorRef;
use toma::memory::{set_cpu_memory_limit, used_bytes};
use toma::{GlobalCache, report};

/// Bytes in addition to the model: enough for about 30 files.
const BESIDE: u64 = 100 << 20;

/// Tolerance of a score: a single row is multiplied by other kernels, which sum in another order.
const SCORE: f32 = 1e-3;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Writes the scores of as many files at a time as fit into memory.
#[toma::chunked(initial = 256, cache = GlobalCache)]
fn classify(
    (files, mut scores): (ArrayView2<'_, i32>, ArrayViewMut2<'_, f32>),
    _start: usize,
    _end: usize,
    session: &mut Session,
) -> ort::Result<()> {
    let outputs = session.run(ort::inputs![TensorRef::from_array_view(files)?])?;
    let found = outputs[0].try_extract_array::<f32>()?.into_dimensionality::<Ix2>();
    scores.assign(&found.map_err(ort::Error::wrap)?);
    Ok(())
}

fn main() -> Result<()> {
    ort::init_from(library(&folder("ONNXRUNTIME_DIR")?)?)?.commit();
    let model = folder("MAGIKA_DIR")?;
    let mut session = session(&model)?;
    let labels = labels(&model)?;
    let paths = files::of_project()?;
    let files = files::read(&paths)?;

    let mut alone = Array2::zeros((paths.len(), labels.len()));
    for file in 0..paths.len() {
        let of_file = s![file..=file, ..];
        classify((files.slice(of_file), alone.slice_mut(of_file)), &mut session)?;
    }

    let limit = set_cpu_memory_limit(used_bytes()? + BESIDE)?;
    let mut scores = Array2::zeros(alone.dim());
    let done = classify((files.view(), scores.view_mut()), &mut session);
    let report = report::last().ok_or("there is no report")?;
    limit.restore()?;
    done?;
    println!("{report}\n");

    let differences = scores.iter().zip(&alone).map(|(score, alone)| (score - alone).abs());
    let worst = differences.fold(0.0, f32::max);
    println!("scores differ from those of single files by at most {worst:.1e}");
    let likeliest = likeliest(&scores);
    for (label, count) in counted(&likeliest) {
        println!("{count:>5}  {}", labels[label]);
    }
    // This example is a test as well, so it checks its own results.
    if report.out_of_memory == 0 || worst.is_nan() || worst > SCORE || likeliest != self::likeliest(&alone) {
        return Err("memory has to run out, and scores may not differ".into());
    }
    fails_once(&mut session, labels.len())
}

fn folder(variable: &str) -> Result<PathBuf> {
    let folder = env::var_os(variable).map(PathBuf::from);
    let missing = || format!("{variable}: must name a folder; `cargo xtask run onnx` fetches and gives it");
    Ok(folder.ok_or_else(missing)?)
}

fn library(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut libraries = files.filter(|path| path.to_string_lossy().contains("/libonnxruntime.so"));
    Ok(libraries.next().ok_or_else(|| format!("{}: no libonnxruntime.so", folder.display()))?)
}

/// Creates a session without an arena, which would keep the most that it ever held, also for smaller batches.
fn session(model: &Path) -> Result<Session> {
    let provider = CPU::default().with_arena_allocator(false).build();
    // Failures are returned as errors, so they need not be logged.
    let builder =
        Session::builder()?.with_log_level(LogLevel::Fatal)?.with_execution_providers([provider])?;
    Ok(builder
        .with_memory_pattern(false)?
        .with_intra_threads(1)?
        .commit_from_file(model.join("model.onnx"))?)
}

fn labels(model: &Path) -> Result<Vec<String>> {
    let config: serde_json::Value = serde_json::from_slice(&fs::read(model.join("config.min.json"))?)?;
    Ok(serde_json::from_value(config["target_labels_space"].clone())?)
}

/// The label of each file.
fn likeliest(scores: &Array2<f32>) -> Vec<usize> {
    let of = |scores: ArrayView1<'_, f32>| (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    scores.rows().into_iter().filter_map(of).collect()
}

fn counted(labels: &[usize]) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for label in labels {
        *counts.entry(*label).or_default() += 1;
    }
    counts
}

/// Checks that a session that fails for another reason is run only once.
fn fails_once(session: &mut Session, labels: usize) -> Result<()> {
    let (narrow, mut scores) = (Array2::zeros((8, 5)), Array2::zeros((8, labels)));
    let error = classify((narrow.view(), scores.view_mut()), session).err().ok_or("5 bytes are no file")?;
    let attempts = report::last().map_or(0, |report| report.attempts);
    println!(
        "\nrows of another width: {attempts} attempt\n  {}",
        error.to_string().lines().next().unwrap_or_default()
    );
    if attempts == 1 { Ok(()) } else { Err("a failure that is none of memory was tried again".into()) }
}
