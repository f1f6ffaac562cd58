//! The file for `memory_viz`, as PyTorch's own tools read it.

use crate::ground;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use tch::{Kind, Tensor};
use toma_torch::profile::Depth;

use crate::{alone, record_at, skipped};

/// Loads the module without its package, whose own dependencies may be missing.
const READ: &str = r#"
import importlib.util, pickle, sys
spec = importlib.util.spec_from_file_location("viz", sys.argv[1])
viz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(viz)
with open(sys.argv[2], "rb") as file:
    snapshot = pickle.load(file)
print(viz.segsum(snapshot))
print(viz.trace(snapshot))
page = viz.trace_plot(snapshot) + viz.segment_plot(snapshot)
print("allocations", sum(event["action"] == "alloc" for events in snapshot["device_traces"] for event in events))
print("files", {frame["filename"] for event in snapshot["device_traces"][-1] for frame in event["frames"]})
print("page", len(page) > 1000)
"#;

/// Returns the path of the tools, if libtorch belongs to an installed PyTorch.
fn tools() -> Option<PathBuf> {
    let include = fs::canonicalize(Path::new(&env::var_os("LIBTORCH")?).join("include")).ok()?;
    let tools = include.parent()?.join("cuda/_memory_viz.py");
    tools.exists().then_some(tools)
}

#[toma::profile]
fn squares(rows: i64) -> Tensor {
    let ones = Tensor::ones([rows, 256], ground::floats());
    let squares = ones.square();
    squares.sum(Kind::Float)
}

#[test]
fn the_tools_of_pytorch_read_a_recording() {
    let _alone = alone();
    let Some(tools) = tools() else {
        skipped("LIBTORCH is not that of a PyTorch, whose tools would read the file");
        return;
    };
    let recording = record_at(Depth::Events, || drop((squares(8), squares(16))));
    let births = recording.trace().unwrap().blocks().filter(|(_, block)| block.birth.is_some()).count();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.pickle");
    recording.write_memory_viz(&file).unwrap();
    let read = Command::new("python3").arg("-c").arg(READ).args([&tools, &file]).output().unwrap();
    let [lines, wrong] = [&read.stdout, &read.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(read.status.success(), "{wrong}");
    for text in [&format!("allocations {births}\n"), "page True", "8.0KiB", "viz.rs"] {
        assert!(lines.contains(text), "{text}: {lines}");
    }
}
