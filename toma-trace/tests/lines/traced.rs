//! The table of a trace equals that of the program it was recorded from.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use toma_trace::lines::{Figures, Lines};
use toma_trace::{Label, Place, Recorder, ScopeId, ScopeKind, StorageId, ThreadId};

use crate::against_twin::{BEFORE, Counted, sources};
use crate::gpu;
use crate::program::{Event, FUNCTIONS, LINES, programs};

const PLACES: [fn() -> Place; 2] = [|| Place::HOST, gpu];

/// Records a program as scopes: one for each function, and in it one for each stay of a line.
struct Recorded {
    recorder: Recorder,
    frames: BTreeMap<usize, Vec<Frame>>,
    blocks: Vec<StorageId>,
}

struct Frame {
    function: ScopeId,
    name: String,
    line: Option<ScopeId>,
    left_to: Option<u32>,
}

impl Recorded {
    fn new() -> Self {
        let mut recorder = Recorder::new();
        for (place, bytes) in PLACES.into_iter().zip(BEFORE) {
            recorder.existing(&place(), bytes).unwrap();
        }
        Self { recorder, frames: BTreeMap::new(), blocks: Vec::new() }
    }

    fn play(&mut self, thread: usize, event: Event) {
        let id = ThreadId(thread as u64);
        match event {
            Event::Enter(number) => {
                self.resume(thread);
                let name = format!("f{}", number / LINES);
                let function = self.recorder.begin_scope(id, label(ScopeKind::Function, &name, number));
                let frame = Frame { function, name, line: None, left_to: None };
                self.frames.entry(thread).or_default().push(frame);
            }
            Event::Mark(number) => self.line(thread, number, false),
            Event::LeftBlock(number) => self.frame(thread).unwrap().left_to = Some(number),
            Event::Leave => {
                let frame = self.frames.get_mut(&thread).unwrap().pop().unwrap();
                frame
                    .line
                    .into_iter()
                    .chain([frame.function])
                    .for_each(|it| self.recorder.end_scope(it).unwrap());
            }
            Event::Allocate { device, bytes } => {
                self.resume(thread);
                self.blocks.push(self.recorder.birth(id, &PLACES[device](), bytes).unwrap());
            }
            Event::Free(block) => self.recorder.death(id, self.blocks[block]).unwrap(),
            Event::Works(time) => {
                let operator = self.recorder.begin_operator(id, "aten::relu");
                self.recorder.duration(operator, Duration::from_nanos(time)).unwrap();
                self.recorder.end_operator(operator).unwrap();
            }
            Event::OutOfMemory(_) | Event::Reserve { .. } | Event::GradientOf(_) => {}
        }
    }

    fn frame(&mut self, thread: usize) -> Option<&mut Frame> {
        self.frames.entry(thread).or_default().last_mut()
    }

    fn resume(&mut self, thread: usize) {
        if let Some(number) = self.frame(thread).and_then(|frame| frame.left_to) {
            self.line(thread, number, true);
        }
    }

    fn line(&mut self, thread: usize, number: u32, resumed: bool) {
        let Some(frame) = self.frames.entry(thread).or_default().last_mut() else { return };
        frame.left_to = None;
        frame.line.into_iter().for_each(|earlier| self.recorder.end_scope(earlier).unwrap());
        let label = label(ScopeKind::Line, "step();", number);
        let label = if resumed { label.with("resumed", &[1]) } else { label };
        frame.line = Some(self.recorder.begin_scope(ThreadId(thread as u64), label));
        assert_eq!(frame.name, format!("f{}", number / LINES));
    }
}

fn label(kind: ScopeKind, name: &str, number: u32) -> Label {
    Label::new(kind, name).at("src/net.rs", number)
}

/// Hits, stays and time of a line, and its figures by device.
type Named = (u64, u64, Duration, [Figures; 2]);

fn named(lines: &Lines) -> BTreeMap<u32, Named> {
    let all = (0..u32::try_from(FUNCTIONS).unwrap() * LINES).filter_map(|number| {
        let function = format!("f{}", number / LINES);
        let row = lines.row(&function, number)?;
        let figures = |place: fn() -> Place| lines.figures(&function, number, &place()).unwrap_or_default();
        Some((number, (row.hits, row.stays, row.time, PLACES.map(figures))))
    });
    let all: BTreeMap<_, _> = all.collect();
    let iterated: BTreeMap<_, _> = lines.iter().map(|(function, number, _)| (number, function)).collect();
    assert!(iterated.keys().eq(all.keys()), "{iterated:?}");
    assert!(iterated.iter().all(|(number, function)| *function == format!("f{}", number / LINES)));
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_lines_of_a_trace_are_those_of_the_program(events in programs()) {
        let (mut counted, mut recorded) = (Counted::new(), Recorded::new());
        let is_traced = |event| {
            !matches!(event, Event::OutOfMemory(_) | Event::Reserve { .. } | Event::GradientOf(_))
        };
        for (thread, event) in events.into_iter().filter(|(_, event)| is_traced(*event)) {
            counted.play(thread, event);
            recorded.play(thread, event);
        }
        let live = named(&Lines::new(&sources(), &counted.rows));
        prop_assert_eq!(named(&Lines::of(&recorded.recorder.finish())), live);
    }
}
