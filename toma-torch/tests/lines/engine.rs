//! Loops behave the same with and without a profiler, and the profiler's rows are right for each form of loop.

use std::cell::Cell;
use std::future::Future;
use std::task::Poll;
use std::{panic, thread};

use crate::ground::{self, Budget};
use fastrand::Rng;
use tch::{TchError, Tensor};
use toma::NoCache;
use toma::device::{Ladder, falls_back};
use toma::execute;
use toma::policy::Policy;
use toma::report;
use toma::{Adaptive, Bisect, Halve, Throughput};
use toma_torch::Device;
use toma_torch::profile::{Column, Depth, Profiler};

use crate::executor::{pause, poll};
use crate::{alone, assert_counted, figures, record_at};

/// Random choices of a program, and the log of its loops.
struct Program {
    random: Rng,
    device: Device,
    lines: Vec<String>,
}

fn tensor(rows: usize) -> Result<Tensor, TchError> {
    Tensor::f_ones([i64::try_from(rows).unwrap(), 256], ground::floats())
}

#[toma::profile]
fn body(program: &mut Program, depth: u32, start: usize, end: usize) -> Result<(), TchError> {
    program.lines.push(format!("{start}..{end}"));
    let rows = tensor(end - start)?;
    for _ in 0..program.random.u32(0..3) {
        let more = if program.random.bool() { tensor(end - start)? } else { &rows + 1 };
        if program.random.u8(0..4) == 0 {
            thread::spawn(move || drop(more)).join().unwrap();
        }
    }
    if depth < 2 && program.random.bool() {
        loops(program, depth + 1, end - start)?;
    }
    Ok(())
}

#[toma::profile]
fn loops(program: &mut Program, depth: u32, items: usize) -> Result<(), TchError> {
    let (device, initial) = (program.device.clone(), program.random.usize(1..=items));
    let with = execute::with::<NoCache>().device(&device).before_retry(|_| ());
    let done = match program.random.u8(0..3) {
        0 => with
            .policy(Bisect::default())
            .range(0..items, initial, |start, end| body(program, depth, start, end)),
        1 => with.policy(Halve).range(0..items, initial, |start, end| body(program, depth, start, end)),
        _ => {
            let rows = with.map(0..items, initial, |start, end| {
                body(program, depth, start, end)?;
                Ok::<_, TchError>(end - start)
            });
            rows.map(drop)
        }
    };
    push_report(program);
    done
}

fn push_report(program: &mut Program) {
    let report = report::last().unwrap();
    let tried: Vec<_> =
        report.tried.iter().map(|tried| (tried.size, tried.succeeded, tried.answer)).collect();
    let full = report.fullest.map(|fullest| (fullest.size, fullest.peak_bytes, fullest.available_bytes));
    let gave_up = report.gave_up.is_some();
    let call =
        (report.start, report.attempts, report.out_of_memory, report.settled, report.fell_back, gave_up);
    program.lines.push(format!("{call:?} {tried:?} {full:?}"));
}

/// Returns everything that a program can observe of its loops.
fn run(seed: u64) -> Vec<String> {
    let mut random = Rng::with_seed(seed);
    let _budget = Budget::beyond_allocated(random.u64(4..64) << 10);
    let items = random.usize(1..32);
    let mut program = Program { random, device: Device::new(ground::device()), lines: Vec::new() };
    let done = panic::catch_unwind(panic::AssertUnwindSafe(|| loops(&mut program, 0, items)));
    program.lines.push(format!("{}", matches!(done, Ok(Ok(())))));
    program.lines
}

#[test]
fn sizes_retries_and_reports_are_the_same_with_a_profiler() {
    let _alone = alone();
    let mut failures = 0;
    for seed in 0..150 {
        let without = run(seed);
        let depth = if seed % 2 == 0 { Depth::Lines } else { Depth::Events };
        let profiling = Profiler::new().depth(depth).events(1 << 14).start().unwrap();
        let with = run(seed);
        let recording = profiling.finish();
        assert_eq!(with, without, "seed {seed}");
        if recording.lost_events() == 0
            && let Some(trace) = recording.trace()
        {
            assert_eq!(trace.live(&ground::place()).after(), ground::allocated_bytes(), "seed {seed}");
            assert_eq!(trace.live(&ground::place()).peak().bytes, recording.peak().bytes, "seed {seed}");
        }
        failures += with.iter().filter(|line| line.contains("Shrink")).count();
    }
    assert!(failures > 25, "{failures}");
}

/// Returns size and peak bytes of the fullest attempt. The size is fixed, because a policy's next one depends on time.
fn measured(policy: impl Policy) -> Option<(usize, u64)> {
    let device = Device::new(ground::device());
    let with = execute::with::<NoCache>().device(&device).max(4).min(4).policy(policy);
    with.range(0..32, 4, |start, end| {
        let rows = tensor(end - start).unwrap();
        drop(&rows + 1);
    });
    report::last().unwrap().fullest.map(|fullest| (fullest.size, fullest.peak_bytes))
}

#[test]
fn policies_measure_the_same_with_a_profiler() {
    let _alone = alone();
    let both = || [measured(Adaptive::default()), measured(Throughput::default())];
    assert_eq!(both(), [Some((4, (8 << 10) + 12)); 2], "both tensors, and scalars of the sum");
    for depth in [Depth::Lines, Depth::Events] {
        let profiling = Profiler::new().depth(depth).start().unwrap();
        assert_eq!(both(), [Some((4, (8 << 10) + 12)); 2]);
        drop(profiling);
    }
}

#[toma::profile]
async fn waits(rows: usize) -> Result<i64, TchError> {
    let ones = tensor(rows)?;
    pause().await;
    let sum = (&ones + 1).sum(tch::Kind::Float);
    let inner = async {
        let more = tensor(1)?;
        pause().await;
        Ok::<_, TchError>(more.size()[0])
    };
    let more = inner.await?;
    drop(sum);
    Ok(more)
}

/// Polls `future`, each time on a new thread, and allocates memory of its own between the polls.
fn moved<T: Send>(between: usize, future: impl Future<Output = T> + Send) -> T {
    let mut future = Box::pin(future);
    loop {
        let polled = thread::scope(|scope| scope.spawn(|| poll(future.as_mut())).join().unwrap());
        if let Poll::Ready(value) = polled {
            return value;
        }
        drop(tensor(between).unwrap());
    }
}

#[test]
fn tasks_that_move_between_threads_keep_their_lines() {
    let _alone = alone();
    let recording = record_at(Depth::Events, || assert_eq!(moved(1000, waits(4)).unwrap(), 1));
    assert_counted(&recording);
    let of = |text| figures(&recording, "waits", text);
    let ones = of("let ones = tensor(rows)?;");
    assert_eq!((ones.allocated, ones.kept), (4 << 10, 0));
    let sum = of("let sum = (&ones + 1).sum(tch::Kind::Float);");
    assert_eq!((sum.allocated, sum.kept), ((4 << 10) + 16, 0), "with scalars");
    assert_eq!(of("let more = tensor(1)?;").allocated, 1 << 10);
    assert_eq!(of("pause().await;").allocated, 0);
}

#[test]
fn a_stream_that_moves_between_threads_is_split_by_attempt() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(5 << 10);
    let recording = record_at(Depth::Events, || {
        let rows = moved(0, async {
            let mut stream = execute::with::<NoCache>()
                .name("stream")
                .stream(0..8, 8, async |start, end| waits(end - start).await);
            let mut rows = 0;
            while let Some(done) = stream.next().await {
                rows += done?;
            }
            Ok::<_, TchError>(rows)
        });
        assert_eq!(rows.unwrap(), 4);
    });
    assert_counted(&recording);
    let table =
        recording.lines().function("waits").columns([Column::Hits, Column::Ooms]).by_attempt().to_string();
    for title in [
        "size 8 of stream: 1 out of memory at ",
        "size 4 of stream: 1 out of memory at ",
        "size 2 of stream: 4 succeeded",
    ] {
        assert!(table.contains(title), "{title}: {table}");
    }
}

#[test]
fn tasks_that_are_dropped_while_they_wait_leave_nothing() {
    let _alone = alone();
    let recording = record_at(Depth::Events, || {
        let mut task = Box::pin(waits(4));
        assert!(poll(task.as_mut()).is_pending());
        thread::spawn(|| drop(task)).join().unwrap();
    });
    assert_counted(&recording);
    assert_eq!(figures(&recording, "waits", "let ones = tensor(rows)?;").kept, 0);
}

#[toma::profile(name = "pieces")]
#[toma::range(initial = 8, cache = NoCache, ladder = Ladder::default().fallback(true), before_retry = undone.set(undone.get() + 1))]
fn above(start: usize, end: usize, undone: &Cell<u32>) -> Result<(), TchError> {
    let rows = tensor(if falls_back() { 1 } else { end - start + 4 })?;
    drop(&rows + 1);
    Ok(())
}

#[toma::range(initial = 8, cache = NoCache, ladder = Ladder::default().fallback(true), before_retry = undone.set(undone.get() + 1))]
#[toma::profile(name = "pieces")]
fn beneath(start: usize, end: usize, undone: &Cell<u32>) -> Result<(), TchError> {
    let rows = tensor(if falls_back() { 1 } else { end - start + 4 })?;
    drop(&rows + 1);
    Ok(())
}

type Attribute = fn(usize, usize, &Cell<u32>) -> Result<(), TchError>;

#[test]
fn attributes_in_either_order_have_the_same_rows_with_a_fallback_too() {
    let _alone = alone();
    let orders: [Attribute; 2] = [above, beneath];
    let [first, second] = orders.map(|pieces| {
        let undone = Cell::new(0);
        let _budget = Budget::beyond_allocated(4 << 10);
        let recording = record_at(Depth::Events, || pieces(0, 8, &undone).unwrap());
        assert_counted(&recording);
        let row = |text| {
            let number = recording.lines().number("pieces", text).unwrap();
            let hits = recording.lines().row("pieces", number).unwrap().hits;
            let figures = recording.lines().figures("pieces", number, &ground::place()).unwrap();
            (hits, figures.rise, figures.allocated, figures.freed, figures.kept, figures.ooms)
        };
        let lines = [
            "let rows = tensor(if falls_back() { 1 } else { end - start + 4 })?;",
            "drop(&rows + 1);",
            "Ok(())",
        ];
        (lines.map(row), undone.get())
    });
    assert_eq!(first, second);
    let ([rows, ..], undone) = first;
    assert_eq!((rows.5, undone), (4, 4), "{rows:?}");
}
