//! Reports of the tensors that filled the memory when an allocation failed.

use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use crate::ground::{self, Budget};
use tch::{Kind, Tensor};
use toma::NoCache;
use toma::memory::{set_cpu_memory_limit, used_bytes};
use toma::observe::{Event, EventKind, everywhere};
use toma::report;
use toma_core::classify::OutOfMemory;
use toma_torch::profile::{Column, Depth, Profiler};

use crate::{alone, child, figures, record, skipped};

#[toma::profile]
fn product(rows: i64) -> Tensor {
    let ones = Tensor::ones([rows, 1 << 10], ground::floats());
    let doubled = &ones + 1;
    doubled.sin()
}

/// Returns the number of the line in this file that consists of this text.
fn line_of(text: &str) -> usize {
    let file = include_str!("filled.rs");
    1 + file.lines().position(|line| line.trim() == text).expect("a line with this text")
}

#[test]
fn a_report_has_line_operator_bytes_and_holders_of_a_failure() {
    let _alone = alone();
    for depth in [Depth::Lines, Depth::Events] {
        let kept = Tensor::ones([100, 256], ground::floats());
        let profiling = Profiler::new().depth(depth).label("kept", &kept).start().unwrap();
        let _budget = Budget::beyond_allocated(20 << 12);
        let form = toma::execute::with::<NoCache>();
        let rows = form.batch(16, |rows| product(i64::try_from(rows).unwrap()).size()[0]);
        drop(profiling);
        assert_eq!(rows, 4);
        let filled = report::last().unwrap().filled.expect("the memory was filled");
        let lines: Vec<_> = filled.lines().collect();
        let (sin, plus) = (line_of("doubled.sin()"), line_of("let doubled = &ones + 1;"));
        let ones = line_of("let ones = Tensor::ones([rows, 1 << 10], ground::floats());");
        let file = "toma-torch/tests/lines/filled.rs";
        assert_eq!(lines[0], format!("sin @ {file}:{sin} asked for 32.00K"), "{filled}");
        let [first, second] = if depth == Depth::Events { ["ones @ ", "add @ "] } else { ["", ""] };
        assert!(filled.contains(&format!("32.00K  activation  {first}{file}:{ones}")), "{filled}");
        assert!(filled.contains(&format!("32.00K  activation  {second}{file}:{plus}")), "{filled}");
        assert!(filled.contains("100.00K  input       kept"), "{filled}");
    }
}

#[test]
fn the_sum_of_what_filled_the_memory_is_what_the_allocator_counts() {
    let _alone = alone();
    let profiling = Profiler::new().start().unwrap();
    let budget = Budget::beyond_allocated(1 << 16);
    let held = Arc::new(Mutex::new(Vec::new()));
    let pushed = Arc::clone(&held);
    let everywhere = everywhere(move |event: &Event<'_>| {
        if let EventKind::Failed { filled, .. } = event.kind {
            pushed.lock().unwrap().push(filled.expect("the witness is asked before observers").to_owned());
        }
    });
    let allocated = Mutex::new(0);
    toma::execute::batch(2, |rows| {
        let first = Tensor::zeros([1 << 13], ground::floats());
        *allocated.lock().unwrap() = ground::allocated_bytes();
        if rows == 2 {
            drop(Tensor::zeros([1 << 14], ground::floats()));
        }
        drop(first);
    });
    drop((everywhere, budget, profiling));
    let bytes = *allocated.lock().unwrap();
    let held = held.lock().unwrap();
    let sum = format!("host holds {}", toma_trace::Size::of(bytes));
    assert_eq!(held.len(), 1);
    assert!(held[0].contains(&sum), "{sum}: {held:?}");
}

#[test]
fn a_failure_on_another_thread_is_reported_and_one_that_passed_no_allocator_is_not() {
    let _alone = alone();
    let profiling = Profiler::new().start().unwrap();
    let budget = Budget::beyond_allocated(20 << 12);
    toma::execute::batch(16, |rows| {
        let rows = i64::try_from(rows).unwrap();
        let joined = thread::scope(|scope| scope.spawn(|| product(rows).size()).join());
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let filled = report::last().unwrap().filled.expect("the other thread's");
    assert!(filled.starts_with("sin @ "), "{filled}");
    drop(budget);
    let mut has_failed = false;
    let typed = toma::execute::batch(2, |_| {
        let is_first = !std::mem::replace(&mut has_failed, true);
        if is_first { Err(OutOfMemory::new(None)) } else { Ok(()) }
    });
    assert!(typed.is_ok());
    assert_eq!(report::last().unwrap().filled, None);
    drop(profiling);
}

#[test]
fn a_failure_that_the_body_survives_is_reported_for_no_later_one() {
    let _alone = alone();
    let profiling = Profiler::new().start().unwrap();
    let _budget = Budget::beyond_allocated(1 << 12);
    let mut has_failed = false;
    let survived = toma::execute::batch(2, |_| {
        assert!(Tensor::f_zeros([1 << 12], ground::floats()).is_err());
        let _small = Tensor::zeros([1], ground::floats());
        let is_first = !std::mem::replace(&mut has_failed, true);
        if is_first { Err(OutOfMemory::new(None)) } else { Ok(()) }
    });
    assert!(survived.is_ok());
    assert_eq!(report::last().unwrap().filled, None);
    drop(profiling);
}

#[test]
fn rows_of_attempts_have_size_outcome_and_position_of_a_failure() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(20 << 12);
    let recording = record(|| {
        let form = toma::execute::with::<NoCache>().name("products");
        let rows = form.batch(16, |rows| product(i64::try_from(rows).unwrap()).size()[0]);
        assert_eq!(rows, 4);
    });
    let lines = recording.lines().function("product").columns([Column::Rise, Column::Hits, Column::Ooms]);
    let sin = line_of("doubled.sin()");
    let apart = lines.clone().by_attempt().to_string();
    for title in [
        "size 16 of products: 1 out of memory at",
        &format!("size 8 of products: 1 out of memory at toma-torch/tests/lines/filled.rs:{sin}\n"),
        "size 4 of products: 1 succeeded\n",
    ] {
        assert!(apart.contains(title), "{title}: {apart}");
    }
    let hits = |table: &str| table.lines().filter(|line| line.contains("let ones = ")).count();
    assert_eq!((hits(&lines.to_string()), hits(&apart)), (1, 3));
    let together = lines.row("product", u32::try_from(sin).unwrap()).unwrap();
    assert_eq!(together.hits, 2, "{lines}");
    let ooms = |text| figures(&recording, "product", text).ooms;
    assert_eq!([ooms("let doubled = &ones + 1;"), ooms("doubled.sin()")], [1, 1]);
}

fn unmarked(rows: i64) -> Tensor {
    Tensor::ones([rows, 1 << 10], ground::floats())
}

#[test]
fn a_program_without_marks_has_a_row_for_each_size() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(5 << 12);
    let recording = record(|| {
        let form = toma::execute::with::<NoCache>().name("ones");
        form.batch(8, |rows| unmarked(i64::try_from(rows).unwrap()).size()[0]);
    });
    let table = recording.lines().columns([Column::Rise, Column::Hits, Column::Ooms]).to_string();
    let rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["##", "attempts"]);
    assert_eq!(rows[2], ["rise", "hits", "ooms", "no.", "attempt"], "{table}");
    assert_eq!(rows[3], ["0.00B", "1", "1", "1", "size", "8", "of", "ones"], "{table}");
    assert_eq!(rows[4], ["16.00K", "1", "0", "2", "size", "4", "of", "ones"], "{table}");
    assert!(!rows.iter().any(|row| *row == ["0"]), "a row of nothing: {table}");
}

/// Returns the request and the holders that were reported for a failed first attempt. The body has no marks.
fn filled_by(depth: Depth, body: fn(&Tensor) -> Tensor) -> String {
    let profiling = Profiler::new().depth(depth).start().unwrap();
    let weight = Tensor::ones([17, 1 << 10], ground::floats()).set_requires_grad(true);
    let _budget = Budget::beyond_allocated(40 << 12);
    let form = toma::execute::with::<NoCache>().name("waves");
    let rows = form.batch(16, |rows| body(&weight.narrow(0, 0, i64::try_from(rows).unwrap())).size()[0]);
    drop(profiling);
    assert_eq!(rows, 8);
    report::last().unwrap().filled.expect("the memory was filled")
}

/// Only the graph shows that the tensor is saved: there are no marks and no backward has run.
#[test]
fn a_saved_tensor_of_a_graph_is_an_activation_before_any_backward() {
    let _alone = alone();
    for depth in [Depth::Lines, Depth::Events] {
        let filled = filled_by(depth, |rows| rows.sin().exp().cos());
        assert!(filled.starts_with("cos @ size 16 of waves asked for 64.00K\n"), "{filled}");
        assert!(filled.contains(" 128.00K activation"), "{filled}");
        assert!(filled.contains("68.00K  input "), "what was there before the attempt: {filled}");
        assert!(!filled.contains("temporary") && !filled.contains("unknown"), "{filled}");
    }
}

#[test]
fn a_tensor_without_gradients_is_unknown_where_no_operators_are_recorded() {
    let _alone = alone();
    for (depth, expected) in [(Depth::Lines, " 128.00K unknown"), (Depth::Events, " 128.00K activation")] {
        let filled = filled_by(depth, |rows| tch::no_grad(|| rows.sin().exp().cos()));
        assert!(filled.contains(expected) && !filled.contains("temporary"), "{filled}");
    }
}

/// The operator fails at its second block, so no later operator uses the first one.
#[test]
fn results_of_the_failed_operator_are_temporary_if_operators_are_recorded() {
    let _alone = alone();
    for (depth, expected) in [(Depth::Lines, " 64.00K unknown"), (Depth::Events, " 64.00K temporary")] {
        let filled = filled_by(depth, |rows| rows.sin().sort(1, false).0);
        assert!(filled.contains(expected), "{filled}");
        assert!(filled.contains(" 64.00K activation"), "{filled}");
    }
}

#[test]
fn blocks_of_the_backward_that_failed_are_temporary() {
    let _alone = alone();
    for depth in [Depth::Lines, Depth::Events] {
        let profiling = Profiler::new().depth(depth).start().unwrap();
        let weight = Tensor::ones([16, 1 << 10], ground::floats()).set_requires_grad(true);
        let _budget = Budget::beyond_allocated(84 << 12);
        let form = toma::execute::with::<NoCache>().name("waves");
        form.batch(16, |rows| {
            let rows = weight.narrow(0, 0, i64::try_from(rows).unwrap());
            rows.sin().exp().cos().sum(Kind::Float).backward();
        });
        drop(profiling);
        let filled = report::last().unwrap().filled.expect("the memory was filled");
        assert!(filled.contains(": 192.01K activation, 128.00K temporary, 64.00K input\n"), "{filled}");
    }
}

#[toma::profile]
fn large(rows: i64) -> Tensor {
    let ones = Tensor::ones([rows, 1 << 20], ground::floats());
    ones.sin()
}

/// The system refuses the allocation, not a budget.
#[test]
fn memory_that_the_system_lacks_is_explained_too() {
    let _alone = alone();
    let profiling = Profiler::new().start().unwrap();
    let limit = used_bytes().and_then(|used| set_cpu_memory_limit(used + (200 << 20)));
    let Ok(limit) = limit else {
        skipped("this system has no limit for a process");
        return;
    };
    let rows =
        toma::execute::with::<NoCache>().batch(64, |rows| large(i64::try_from(rows).unwrap()).size()[0]);
    drop((limit, profiling));
    assert!((4..64).contains(&rows), "{rows}");
    let filled = report::last().unwrap().filled.expect("the memory was filled");
    let first_line = filled.lines().next().unwrap();
    let [ones, sin] =
        ["let ones = Tensor::ones([rows, 1 << 20], ground::floats());", "ones.sin()"].map(line_of);
    let is_line = [ones, sin].map(|line| first_line.contains(&format!("filled.rs:{line} asked for ")));
    assert!(is_line.contains(&true) && !first_line.starts_with("toma-torch"), "{filled}");
}

#[toma::profile]
fn small(rows: i64) -> Tensor {
    let ones = Tensor::ones([rows, 1 << 10], ground::floats());
    ones.sin()
}

/// Allocates until fewer than `least` bytes are left.
fn fill(least: i64) -> Vec<Tensor> {
    let mut held = Vec::with_capacity(1 << 10);
    while let Ok(piece) = Tensor::f_zeros([least], (Kind::Uint8, ground::device())) {
        held.push(piece);
    }
    held
}

/// Leaves gaps too small for a tensor, but large enough for allocations of Rust and libtorch that must not fail.
fn room_for_small() -> Vec<Box<[u8]>> {
    let pieces: Vec<_> = (0..1 << 11).map(|_| vec![0; 3 << 10].into_boxed_slice()).collect();
    pieces.into_iter().step_by(2).collect()
}

/// New threads, unknown to the recording, start while the process has fewer bytes left than one of them requests.
#[test]
fn threads_that_begin_where_little_is_left_are_explained() {
    let _alone = alone();
    let name = "filled::threads_that_begin_where_little_is_left_are_explained";
    // A single arena, because otherwise each thread would have reserved some memory of its own.
    let Some(ended) = child::run(name, &[("MALLOC_ARENA_MAX", "1")]) else {
        let limit = used_bytes().and_then(|used| set_cpu_memory_limit(used + (700 << 20)));
        let Ok(_limit) = limit else {
            skipped("this system has no limit for a process");
            return;
        };
        [Depth::Lines, Depth::Events].into_iter().for_each(threads_where_little_is_left);
        return;
    };
    ended.passed();
}

fn threads_where_little_is_left(depth: Depth) {
    let profiling = Profiler::new().depth(depth).events(1 << 16).start().unwrap();
    let together = Barrier::new(9);
    let reports = thread::scope(|scope| {
        let threads = [(); 8].map(|()| {
            scope.spawn(|| {
                // libtorch ends the process when it cannot start one of its own threads.
                tch::set_num_threads(1);
                together.wait();
                let form = toma::execute::with::<NoCache>();
                form.batch(1 << 13, |rows| small(i64::try_from(rows).unwrap()).size()[0]);
                report::last().unwrap()
            })
        });
        let room = room_for_small();
        let held = fill(8 << 20);
        together.wait();
        let reports = threads.map(|thread| thread.join().unwrap());
        drop((held, room));
        reports
    });
    drop(profiling);
    assert!(reports.iter().all(|report| report.out_of_memory > 0), "{reports:?}");
    // Threads that fail at the very same moment have no report of holders.
    let explained: Vec<_> = reports.iter().filter_map(|report| report.filled.as_deref()).collect();
    assert!(!explained.is_empty(), "{reports:?}");
    for filled in explained {
        let is_named = ["ones", "sin"]
            .map(|operator| filled.starts_with(&format!("{operator} @ toma-torch/tests/lines/filled.rs")));
        assert!(is_named.contains(&true), "{filled}");
    }
}
