//! Backtraces are absent where nobody reads them, and present where they are read.

use std::thread;

use tch::Tensor;
use toma_torch::QuietBacktraces;

use crate::ground;
use crate::stage::alone;

fn error() -> String {
    Tensor::ones([2], ground::floats()).f_reshape([3]).unwrap_err().to_string()
}

fn has_trace() -> bool {
    error().contains("frame #")
}

#[test]
fn quiet_is_of_its_thread_and_counts_its_guards() {
    let _alone = alone();
    assert!(has_trace());
    let outer = QuietBacktraces::new();
    let inner = QuietBacktraces::new();
    assert!(!has_trace());
    assert!(error().contains("shape '[3]' is invalid for input of size 2"), "{}", error());
    assert!(thread::spawn(has_trace).join().unwrap(), "another thread keeps its own");
    drop(outer);
    assert!(!has_trace());
    drop(inner);
    assert!(has_trace());
}
