//! Recordings that begin and end at bad moments, next to threads that run on regardless.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use std::{panic, thread};

use crate::ground::{self, Budget, FailingAllocation};
use tch::nn::{self, Module as _, OptimizerConfig as _};
use tch::{Kind, Tensor};
use toma::NoCache;
use toma::report;
use toma_torch::profile::{self, Column, Depth, Profiler};

use crate::{alone, assert_counted, figures, record, record_at};

fn kib(many: i64) -> Tensor {
    Tensor::zeros([many, 256], ground::floats())
}

#[test]
fn blocks_freed_by_an_ending_thread_are_freed() {
    thread_local! {
        static KEPT: RefCell<Option<Tensor>> = const { RefCell::new(None) };
    }
    let _alone = alone();
    let recording = record_at(Depth::Events, || {
        thread::spawn(|| KEPT.with_borrow_mut(|kept| *kept = Some(kib(64)))).join().unwrap();
        drop(kib(32));
    });
    assert_counted(&recording);
    assert_eq!(recording.peak().bytes, ground::allocated_bytes() + (64 << 10));
}

#[test]
fn recordings_that_begin_and_end_beside_busy_threads_are_off_by_no_more_than_those_hold() {
    let _alone = alone();
    let is_over = AtomicBool::new(false);
    let most = 4 * (8 << 10);
    let peaks = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    let held = kib(8);
                    thread::sleep(Duration::from_micros(50));
                    drop(held);
                    thread::sleep(Duration::from_micros(50));
                }
            });
        }
        let peaks: Vec<_> = (0..200)
            .map(|round| {
                let depth = if round % 4 == 0 { Depth::Events } else { Depth::Lines };
                let mut profiling = Profiler::new().depth(depth).events(1 << 16).start().unwrap();
                drop(kib(1));
                if round % 3 == 0 {
                    profiling.clear();
                    drop(kib(1));
                }
                let recording = profiling.finish();
                (
                    recording.peak().bytes,
                    recording.trace().map(|trace| trace.live(&ground::place()).peak().bytes),
                )
            })
            .collect();
        is_over.store(true, Relaxed);
        peaks
    });
    let most = ground::allocated_bytes() + 2 * most + 1024;
    for (round, (peak, of_trace)) in peaks.into_iter().enumerate() {
        assert!(peak <= most, "round {round}: {peak} of at most {most}");
        assert!(of_trace.is_none_or(|peak| peak <= most), "round {round}: {of_trace:?} of at most {most}");
    }
}

#[test]
fn one_recording_after_the_other_on_different_threads_keep_their_names() {
    let _alone = alone();
    let body = || {
        let mut ok = 0;
        for _ in 0..100 {
            let Ok(profiling) = Profiler::new().depth(Depth::Events).events(256).start() else { continue };
            let input = kib(1);
            profile::label("input", &input);
            let sum = input.sum(Kind::Float);
            drop((input, sum));
            let recording = profiling.finish();
            let peak = recording.peak();
            let held = peak.holdings.unwrap();
            assert!(held.held().iter().any(|held| held.name == "input"), "{held}");
            assert!(recording.trace().unwrap().operators().len() > 0);
            ok += 1;
        }
        ok
    };
    let done: u32 = thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(body));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(done > 20, "{done}");
}

#[toma::profile]
fn loops(rows: usize) -> i64 {
    toma::execute::with::<NoCache>().name("loops").batch(rows, |rows| {
        let ones = Tensor::ones([i64::try_from(rows).unwrap(), 1 << 10], ground::floats());
        ones.sin().size()[0]
    })
}

#[test]
fn closures_in_an_attempt_are_split_by_attempt() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(20 << 12);
    let recording = record(|| assert_eq!(loops(16), 8));
    let apart =
        recording.lines().function("loops").columns([Column::Hits, Column::Ooms]).by_attempt().to_string();
    for title in ["size 16 of loops: 1 out of memory at ", "size 8 of loops: 1 succeeded\n"] {
        assert!(apart.contains(title), "{title}: {apart}");
    }
}

#[toma::profile]
fn recursive(depth: u32) -> Tensor {
    let ones = kib(4);
    if depth > 0 {
        toma::execute::with::<NoCache>().name("deeper").batch(2, |_| drop(recursive(depth - 1)));
    }
    ones
}

#[test]
fn recursion_through_attempts_counts_once() {
    let _alone = alone();
    let recording = record(|| drop(recursive(3)));
    let line = figures(&recording, "recursive", "let ones = kib(4);");
    assert_eq!((line.allocated, line.kept), (4 * 4096, 0));
    let text = "toma::execute::with::<NoCache>().name(\"deeper\").batch(2, |_| drop(recursive(depth - 1)));";
    let deeper = figures(&recording, "recursive", text);
    assert_eq!((deeper.allocated, deeper.freed), (3 * 4096, 3 * 4096));
}

#[test]
fn a_failure_that_goes_through_two_loops_is_reported_for_both() {
    let _alone = alone();
    let profiling = Profiler::new().start().unwrap();
    let _budget = Budget::beyond_allocated(3 << 12);
    let mut inner = None;
    let rows = toma::execute::with::<NoCache>().name("outer").batch(4, |outer| {
        let kept = Tensor::ones([i64::try_from(outer).unwrap(), 1 << 10], ground::floats());
        let done = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            toma::execute::with::<NoCache>().name("inner").batch(1, |_| drop(kib(8)));
        }));
        inner = report::last().and_then(|report| report.filled).or(inner.take());
        drop(kept);
        done.unwrap_or_else(|panic| panic::resume_unwind(panic));
        outer
    });
    drop(profiling);
    assert_eq!(rows, 1);
    assert!(inner.is_some_and(|filled| filled.contains("zeros")));
    let outer = report::last().unwrap().filled;
    assert!(outer.as_ref().is_some_and(|filled| filled.contains("zeros")), "{outer:?}");
}

#[test]
fn states_of_an_optimizer_whose_first_step_failed_have_names() {
    let _alone = alone();
    for fails_at in 0..6 {
        let variables = nn::VarStore::new(ground::device());
        let net = nn::linear(variables.root(), 16, 8, nn::LinearConfig::default());
        let mut optimizer = nn::Adam::default().build(&variables, 1e-3).unwrap();
        let profiling = Profiler::new().variables(&variables).start().unwrap();
        net.forward(&Tensor::ones([4, 16], ground::floats())).sum(Kind::Float).backward();
        let mut failing = Some(fails_at);
        toma::execute::with::<NoCache>().batch(2, |_| {
            let _injected = failing.take().map(FailingAllocation::after);
            profile::optimizer("Adam", || optimizer.step());
        });
        assert_eq!(report::last().unwrap().out_of_memory, 1, "allocation {fails_at}");
        let held = profile::inventory().variables(&variables).take().unwrap().to_string();
        for state in ["weight.exp_avg", "weight.exp_avg_sq", "bias.exp_avg", "bias.exp_avg_sq"] {
            assert!(held.contains(&format!("Adam.{state} ")), "allocation {fails_at}, {state}: {held}");
        }
        drop(profiling);
    }
}

#[test]
fn a_name_is_not_that_of_a_later_tensor_at_the_same_place() {
    let _alone = alone();
    let mut profiling = Profiler::new().depth(Depth::Events).events(1 << 10).start().unwrap();
    let mut others = Vec::new();
    // Repeats until a tensor gets the address of the one before.
    for _ in 0..1000 {
        let input = kib(16);
        profile::label("input", &input);
        let address = input.data_ptr();
        drop(input);
        others.push(kib(16));
        if others.last().is_some_and(|other| other.data_ptr() == address) {
            break;
        }
    }
    assert!(others.len() < 1000);
    profiling.clear();
    drop(kib(1));
    let held = profiling.finish().peak().holdings.unwrap();
    assert!(held.held().iter().all(|held| held.name != "input"), "{held}");
}

#[test]
fn names_outlive_a_clear() {
    let _alone = alone();
    let input = kib(16);
    let variables = nn::VarStore::new(ground::device());
    let net = nn::linear(variables.root(), 16, 8, nn::LinearConfig::default());
    let profiler = Profiler::new().depth(Depth::Events).events(1 << 10).variables(&variables);
    let mut profiling = profiler.label("input", &input).start().unwrap();
    drop(kib(1));
    profiling.clear();
    drop(kib(1));
    drop((net, variables));
    let held = profiling.finish().peak().holdings.unwrap();
    for name in ["input", "weight", "bias"] {
        assert!(held.held().iter().any(|held| held.name == name), "{name}: {held}");
    }
}

#[toma::profile]
fn backward(loss: &Tensor) {
    loss.backward();
    drop(kib(1));
}

#[test]
fn a_store_that_the_program_has_locked_is_not_waited_for() {
    let _alone = alone();
    let variables = nn::VarStore::new(ground::device());
    let net = nn::linear(variables.root(), 16, 8, nn::LinearConfig::default());
    let profiling = Profiler::new().variables(&variables).start().unwrap();
    let loss = net.forward(&Tensor::ones([4, 16], ground::floats())).sum(Kind::Float);
    let locked = variables.variables_.lock().unwrap();
    backward(&loss);
    let mut failing = Some(0);
    toma::execute::with::<NoCache>().batch(2, |_| {
        let _injected = failing.take().map(FailingAllocation::after);
        profile::optimizer("none", || drop(kib(1)));
    });
    drop(locked);
    assert!(report::last().unwrap().filled.is_some());
    drop(profiling);
}

#[toma::profile]
fn outer(depth: Depth) -> profile::Profiling {
    let kept = kib(8);
    let mut profiling = Profiler::new().depth(depth).start().unwrap();
    drop(kib(4));
    loops(1);
    profiling.clear();
    drop(kib(2));
    loops(1);
    drop(kept);
    profiling
}

#[test]
fn a_recording_that_begins_in_the_middle_of_functions_knows_those_that_are_called_later() {
    let _alone = alone();
    for depth in [Depth::Lines, Depth::Events] {
        let recording = outer(depth).finish();
        let table = recording.lines().columns([Column::Hits]).to_string();
        assert!(table.contains("## ") && table.contains("loops") && !table.contains("outer"), "{table}");
        let held = ground::allocated_bytes() + (16 << 10);
        assert_eq!(recording.peak().bytes, held, "kept, and two in the loop");
        if depth == Depth::Events {
            assert_counted(&recording);
        }
    }
}

#[test]
fn a_recording_may_end_on_another_thread_within_an_attempt_and_a_phase() {
    let _alone = alone();
    let mut recordings = Vec::new();
    toma::execute::batch(2, |_| {
        let profiling = Profiler::new().depth(Depth::Events).start().unwrap();
        toma::execute::batch(2, |_| drop(kib(3)));
        profile::optimizer("Adam", || {
            drop(kib(2));
            recordings.push(thread::spawn(|| profiling.finish()).join().unwrap());
            drop(kib(5));
        });
    });
    let recording = recordings.pop().unwrap();
    assert_counted(&recording);
    assert_eq!(recording.peak().bytes, ground::allocated_bytes() + (3 << 10));
    let next = record_at(Depth::Events, || drop(kib(1)));
    assert_counted(&next);
}

#[test]
fn rings_of_one_event_and_of_none_count_the_lost_events() {
    let _alone = alone();
    for events in [0, 1, 2] {
        let profiling = Profiler::new().depth(Depth::Events).events(events).start().unwrap();
        let kept = loops(2);
        let tensors = [kib(1), kib(2)];
        let recording = profiling.finish();
        assert!(recording.lost_events() > 0 && kept == 2);
        assert!(recording.to_string().starts_with("the first "), "{recording}");
        assert_eq!(recording.trace().unwrap().live(&ground::place()).after(), ground::allocated_bytes());
        assert!(recording.peak().bytes >= ground::allocated_bytes());
        let folder = tempfile::tempdir().unwrap();
        recording.write_html(folder.path().join("a.html")).unwrap();
        recording.write_memory_viz(folder.path().join("a.pickle")).unwrap();
        recording.write_perfetto(folder.path().join("a.json")).unwrap();
        drop(tensors);
    }
}

#[test]
fn many_sizes_of_a_program_without_marks_share_the_last_row() {
    let _alone = alone();
    let recording = record(|| {
        for size in 1..50 {
            toma::execute::with::<NoCache>().name("sizes").batch(size, |size| {
                drop(kib(i64::try_from(size).unwrap()));
            });
        }
    });
    let table = recording.lines().columns([Column::Allocated, Column::Hits]).to_string();
    assert!(table.contains("size 31 of sizes") && !table.contains("size 33 of sizes"), "{table}");
    let last = table.lines().find(|line| line.trim_end().ends_with("others")).expect("a row of others");
    let [bytes, hits] = [0, 1].map(|at| last.split_whitespace().nth(at).unwrap());
    assert_eq!(hits, "18", "{table}");
    assert_eq!(bytes, "729.00K", "{table}");
}

#[test]
fn a_dry_run_within_an_attempt_is_in_no_row_and_ends_nothing() {
    let _alone = alone();
    let recording = record_at(Depth::Events, || {
        toma::execute::with::<NoCache>().name("around").batch(2, |_| {
            drop(kib(1));
            toma_torch::dry_run(|| recursive(2)).unwrap();
            drop(recursive(0));
        });
    });
    assert_counted(&recording);
    assert_eq!(figures(&recording, "recursive", "let ones = kib(4);").allocated, 4096);
}

#[toma::profile]
fn panics_in_a_closure() {
    let kept = kib(2);
    let work = || {
        let inner = kib(4);
        assert!(inner.size()[0] == 0, "of the closure");
    };
    work();
    drop(kept);
}

#[test]
fn a_panic_in_a_marked_closure_leaves_nothing() {
    let _alone = alone();
    let recording = record_at(Depth::Events, || {
        for _ in 0..3 {
            panic::catch_unwind(panics_in_a_closure).unwrap_err();
        }
        drop(kib(1));
    });
    assert_counted(&recording);
    let inner = figures(&recording, "panics_in_a_closure", "let inner = kib(4);");
    assert_eq!((inner.allocated, inner.kept), (3 * 4096, 0));
    let trace = recording.trace().unwrap();
    assert!(trace.scopes().all(|(_, scope)| scope.interval.end <= trace.end()));
}

#[test]
fn a_run_within_a_run_is_refused_in_so_many_words() {
    let _alone = alone();
    let run = profile::run(|| panic::catch_unwind(|| profile::run(|| 1)).unwrap_err());
    let text = run.value.downcast_ref::<String>().unwrap();
    assert_eq!(text, "run: profiler: another runs, or TOMA_PROFILE is set: one at a time");
    assert_eq!(profile::run(|| 2).value, 2);
}

#[test]
fn tensors_without_memory_of_their_own_have_no_name_and_do_no_harm() {
    let _alone = alone();
    let empty = Tensor::zeros([0], ground::floats());
    let sparse = Tensor::eye(4, ground::floats()).to_sparse(None, None::<Vec<i64>>, None);
    let undefined = Tensor::new();
    let profiler = Profiler::new().depth(Depth::Events).events(1 << 10);
    let profiler = profiler.label("empty", &empty).label("sparse", &sparse).label("undefined", &undefined);
    let profiling = profiler.start().unwrap();
    profile::label("empty again", &empty);
    profile::label("undefined again", &undefined);
    drop(kib(1));
    let recording = profiling.finish();
    let held = recording.peak().holdings.unwrap();
    let names: Vec<_> = held.held().iter().map(|held| held.name.as_str()).collect();
    assert!(
        names.contains(&"sparse") && !names.contains(&"empty") && !names.contains(&"undefined"),
        "{held}"
    );
    assert_counted(&recording);
}

#[test]
fn recordings_come_and_go_while_threads_are_in_the_middle_of_all_sorts() {
    let _alone = alone();
    let is_over = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        for thread in 0..3 {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    match thread {
                        0 => drop(recursive(3)),
                        1 => assert_eq!(loops(3), 3),
                        _ => profile::optimizer("Adam", || drop(panic::catch_unwind(panics_in_a_closure))),
                    }
                }
            });
        }
        let mut seen = 0;
        for round in 0..60 {
            let depth = if round % 2 == 0 { Depth::Lines } else { Depth::Events };
            let mut profiling = Profiler::new().depth(depth).events(1 << (round % 13)).start().unwrap();
            thread::sleep(Duration::from_millis(1));
            drop(recursive(1));
            profiling.lines().by_attempt().to_string();
            if round % 3 == 0 {
                profiling.clear();
                drop(recursive(1));
            }
            if round % 5 == 0 {
                drop(profiling);
                continue;
            }
            let recording = profiling.finish();
            let most = ground::allocated_bytes() + (1 << 20);
            assert!(recording.peak().bytes < most, "round {round}: {recording}");
            let table = recording.lines().columns(Column::ALL).by_attempt().to_string();
            seen += usize::from(table.contains("let ones = kib(4);"));
            if let Some(trace) = recording.trace() {
                assert!(trace.live(&ground::place()).peak().bytes < most, "round {round}: {recording}");
            }
        }
        is_over.store(true, Relaxed);
        seen
    });
    assert_eq!(seen, 48);
}
