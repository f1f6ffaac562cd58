//! Files of a trace, as other programs read them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use toma_trace::holdings::{Catalog, Category, Names};
use toma_trace::lines::Lines;
use toma_trace::{Label, Place, Recorder, ScopeKind, Trace, write};

use crate::lines::step;
use crate::random::{actions, recorded};
use crate::{MAIN, gpu};

#[derive(Debug, Deserialize)]
struct Snapshot {
    segments: Vec<Segment>,
    device_traces: Vec<Vec<Event>>,
    allocator_settings: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the names are those of the format")]
struct Segment {
    device: u64,
    address: u64,
    total_size: u64,
    allocated_size: u64,
    active_size: u64,
    requested_size: u64,
    stream: u64,
    segment_type: String,
    segment_pool_id: (u64, u64),
    is_expandable: bool,
    frames: Vec<Frame>,
    blocks: Vec<Block>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    address: u64,
    size: u64,
    requested_size: u64,
    state: String,
    frames: Vec<Frame>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    action: String,
    addr: u64,
    size: u64,
    stream: u64,
    time_us: u64,
    category: String,
    frames: Vec<Frame>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    filename: String,
    line: u64,
    name: String,
}

fn snapshot(trace: &Trace, names: &Names) -> Snapshot {
    let mut bytes = Vec::new();
    write::memory_viz(trace, &Catalog::of(trace, names), &mut bytes).unwrap();
    serde_pickle::from_slice(&bytes, serde_pickle::DeOptions::new()).unwrap()
}

#[test]
fn a_step_as_a_snapshot_of_pytorch() {
    let (trace, weight) = step().unwrap();
    let mut names = Names::new();
    names.name(weight, Category::Parameter, "weight");
    let snapshot = snapshot(&trace, &names);
    assert!(snapshot.allocator_settings.is_empty());
    let [events] = &snapshot.device_traces[..] else { panic!("{snapshot:?}") };
    let product = &events[1];
    assert_eq!(
        (product.action.as_str(), product.size, product.category.as_str()),
        ("alloc", 400, "activation")
    );
    let frame =
        |filename: &str, line, name: &str| Frame { filename: filename.into(), line, name: name.into() };
    assert_eq!(
        product.frames,
        [
            frame("activation", 0, "mm @ src/net.rs:10"),
            frame("", 0, "aten::mm"),
            frame("src/net.rs", 10, "step"),
        ]
    );
    assert_eq!(snapshot.segments[0].frames, [frame("parameter", 0, "weight")]);
    let alive: Vec<_> = snapshot.segments.iter().map(|segment| segment.requested_size).collect();
    assert_eq!(alive, [100, 100]);
}

/// Traces that are read from files may claim any size.
#[test]
fn the_largest_block_is_written() {
    let mut recorder = Recorder::new();
    recorder.existing(&gpu(), u64::MAX - 100).unwrap();
    assert_eq!(snapshot(&recorder.finish(), &Names::new()).segments.len(), 1);
}

/// The page hides frames whose function name contains one of these parts.
#[test]
fn no_frame_of_a_program_has_a_name_that_the_page_hides() {
    let mut recorder = Recorder::new();
    for name in ["warm_start", "unwind::unwind_all", "_start_start"] {
        recorder.begin_scope(MAIN, Label::new(ScopeKind::Function, name).at("src/net.rs", 1));
    }
    let born = recorder.birth(MAIN, &Place::HOST, 100).unwrap();
    let trace = recorder.finish();
    let mut names = Names::new();
    names.name(born, Category::Parameter, "x_start");
    let snapshot = snapshot(&trace, &names);
    let frames: Vec<_> = snapshot.segments[0].frames.iter().map(|frame| &*frame.name).collect();
    let shown: Vec<_> = frames.iter().map(|name| name.replace('\u{200b}', "")).collect();
    assert_eq!(shown, ["x_start", "_start_start", "unwind::unwind_all", "warm_start"]);
    let hidden = ["_start", "unwind::unwind"].map(|part| frames.iter().any(|name| name.contains(part)));
    assert_eq!(hidden, [false; 2], "{frames:?}");
}

/// With nested lines of one function, the frame has the innermost line.
#[test]
fn a_frame_has_the_innermost_line() {
    let mut recorder = Recorder::new();
    for (kind, name, line) in
        [(ScopeKind::Function, "f", 1), (ScopeKind::Line, "for x in y {", 2), (ScopeKind::Line, "g(x);", 3)]
    {
        recorder.begin_scope(MAIN, Label::new(kind, name).at("src/net.rs", line));
    }
    recorder.birth(MAIN, &gpu(), 8).unwrap();
    let snapshot = snapshot(&recorder.finish(), &Names::new());
    let frames = &snapshot.segments[0].frames[1..];
    assert_eq!(frames, [Frame { filename: "src/net.rs".into(), line: 3, name: "f".into() }]);
}

#[test]
fn the_host_is_the_last_device() {
    let mut recorder = Recorder::new();
    for place in [Place::HOST, Place::device("cuda", 1), Place::device("mps", 0)] {
        recorder.birth(MAIN, &place, 8).unwrap();
    }
    let snapshot = snapshot(&recorder.finish(), &Names::new());
    let devices: Vec<_> = snapshot.segments.iter().map(|segment| segment.device).collect();
    assert_eq!(devices, [3, 1, 2]);
    assert_eq!(snapshot.device_traces.iter().map(Vec::len).collect::<Vec<_>>(), [0, 2, 2, 2]);
}

/// A list of more items than one batch, and integers of more than four bytes.
#[test]
fn large_snapshots_are_read() {
    let mut recorder = Recorder::new();
    for _ in 0..1500 {
        recorder.birth(MAIN, &gpu(), 1 << 33).unwrap();
    }
    let snapshot = snapshot(&recorder.finish(), &Names::new());
    assert_eq!(snapshot.segments.len(), 1500);
    assert!(snapshot.segments.iter().all(|segment| segment.requested_size == 1 << 33));
}

/// Plays a snapshot backwards, as the page does: each event must find the state that it undoes.
fn undo(snapshot: &Snapshot, device: usize) -> Result<(), TestCaseError> {
    let of_device = snapshot.segments.iter().filter(|segment| segment.device == device as u64);
    let mut segments: BTreeMap<_, _> =
        of_device.map(|segment| (segment.address, segment.total_size)).collect();
    let mut blocks: BTreeSet<_> =
        snapshot.segments.iter().flat_map(|it| &it.blocks).map(|it| it.address).collect();
    for event in snapshot.device_traces[device].iter().rev() {
        match event.action.as_str() {
            "segment_free" => prop_assert_eq!(segments.insert(event.addr, event.size), None),
            "segment_alloc" => prop_assert_eq!(segments.remove(&event.addr), Some(event.size)),
            "free_completed" => prop_assert!(blocks.insert(event.addr)),
            "free_requested" => prop_assert!(blocks.contains(&event.addr)),
            "alloc" => prop_assert!(blocks.remove(&event.addr)),
            other => panic!("{other}"),
        }
        let holds = |(address, size): (&u64, &u64)| *address <= event.addr && event.addr < address + size;
        prop_assert!(event.action == "segment_alloc" || segments.iter().any(holds));
        prop_assert!(event.addr < 1 << 53 && event.stream == 0);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_are_consistent_and_list_live_blocks(actions in actions()) {
        let trace = recorded(&actions);
        let snapshot = snapshot(&trace, &Names::new());
        let alive = snapshot.segments.iter().map(|segment| segment.requested_size).sum::<u64>();
        prop_assert_eq!(alive, trace.places().iter().map(|place| trace.live(place).after()).sum::<u64>());
        for segment in &snapshot.segments {
            prop_assert_eq!(segment.blocks.iter().map(|block| block.size).sum::<u64>(), segment.total_size);
            prop_assert_eq!((segment.active_size, segment.allocated_size), (segment.total_size, segment.total_size));
            prop_assert_eq!((segment.stream, segment.segment_pool_id, segment.is_expandable), (0, (0, 0), false));
            prop_assert_eq!(segment.segment_type.as_str(), "large");
            let block = &segment.blocks[0];
            prop_assert_eq!((block.state.as_str(), block.address), ("active_allocated", segment.address));
            prop_assert_eq!((&block.frames, block.requested_size), (&segment.frames, segment.requested_size));
        }
        for (device, events) in snapshot.device_traces.iter().enumerate() {
            prop_assert!(events.is_sorted_by_key(|event| event.time_us));
            // The page fails if there are categories and none of them is `unknown`.
            prop_assert!(events.is_empty() || events.iter().any(|event| event.category == "unknown"));
            undo(&snapshot, device)?;
        }
    }

    #[test]
    fn perfetto_finds_nested_intervals_and_counters(actions in actions()) {
        let trace = recorded(&actions);
        let mut bytes = Vec::new();
        write::perfetto(&trace, &mut bytes).unwrap();
        let read: Value = serde_json::from_slice(&bytes).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).cloned().collect::<Vec<_>>();
        let number = |event: &Value, key: &str| event[key].as_u64().unwrap();
        let intervals: Vec<_> = of("X")
            .iter()
            .map(|event| (number(event, "tid"), number(event, "ts"), number(event, "ts") + number(event, "dur")))
            .collect();
        prop_assert_eq!(intervals.len(), trace.scopes().len() + trace.operators().len());
        for (thread, begin, end) in &intervals {
            let crosses = |other: &&(u64, u64, u64)| {
                other.0 == *thread && *begin < other.1 && other.1 < *end && *end < other.2
            };
            prop_assert_eq!(intervals.iter().find(crosses), None);
        }
        for place in trace.places() {
            let counters = of("C").into_iter().filter(|event| event["name"] == place.to_string());
            let steps: Vec<_> = counters.map(|event| (number(&event, "ts"), number(&event["args"], "bytes"))).collect();
            let expected: Vec<_> = trace.live(place).steps().iter().map(|(tick, bytes)| (tick.count(), *bytes)).collect();
            prop_assert_eq!(steps, expected);
        }
    }
}

#[test]
fn a_step_as_text() {
    let (trace, weight) = step().unwrap();
    let mut names = Names::new();
    names.name(weight, Category::Parameter, "weight");
    let mut bytes = Vec::new();
    write::text(&trace, &Catalog::of(&trace, &names), &Lines::of(&trace), &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let parts = [
        "peak of 1.37K on cuda:0, reached by mm @ src/net.rs:12\ncuda:0 holds 1.37K: ",
        "## step (src/net.rs)\n\n",
        "Storage on cuda:0\nweight ",
        "Total Tensors: 2 \tUsed Memory: 1.00K\n",
    ];
    let places = parts.map(|part| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}")));
    assert!(places.is_sorted(), "{text}");
}

fn page(trace: &Trace, names: &Names, title: &str) -> String {
    let mut bytes = Vec::new();
    write::html(trace, &Catalog::of(trace, names), &Lines::of(trace), title, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Returns the corners of the only timeline of a page, and checks that the page is well-formed and self-contained.
fn timeline(page: &str) -> Vec<(u32, u32)> {
    for outside in ["<script", "http", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    let page = roxmltree::Document::parse_with_options(page, options).unwrap();
    let mut areas = page.descendants().filter(|node| node.has_tag_name("polygon"));
    let (Some(area), None) = (areas.next(), areas.next()) else { panic!("one timeline") };
    let corner = |point: &str| {
        let (x, y) = point.split_once(',').unwrap();
        (x.parse().unwrap(), y.parse().unwrap())
    };
    area.attribute("points").unwrap().split(' ').map(corner).collect()
}

#[test]
fn a_page_shows_what_the_peak_is_made_of() {
    let (trace, weight) = step().unwrap();
    let mut names = Names::new();
    names.name(weight, Category::Parameter, "<weight>");
    let page = page(&trace, &names, "step & \"more\"");
    for part in [
        "step &#38; &#34;more&#34;",
        "peak of 1.37K on cuda:0, reached by mm @ src/net.rs:12",
        "cuda:0 holds 1.37K: ",
        "mm @ src/net.rs:10",
        "## step (src/net.rs)",
        "&#60;weight&#62;",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    timeline(&page);
}

/// However long a trace, its timeline has at most three corners for each of 1,000 columns and shows its peak.
#[test]
fn a_timeline_is_short_and_loses_no_peak() {
    let mut recorder = Recorder::new();
    for step in 0..5000 {
        let made = recorder.birth(MAIN, &gpu(), if step == 3333 { 800 } else { 8 }).unwrap();
        recorder.death(MAIN, made).unwrap();
    }
    let page = page(&recorder.finish(), &Names::new(), "long");
    let points = timeline(&page);
    assert!((2000..=3010).contains(&points.len()), "{}", points.len());
    assert!(points.contains(&(666, 0)), "{points:?}");
}
