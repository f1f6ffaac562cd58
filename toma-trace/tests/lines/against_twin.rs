//! Figures counted while a program runs equal those of the definitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use proptest::prelude::*;
use toma_trace::Place;
use toma_trace::lines::{Born, DeviceId, LineId, Row, Rows, Source, Sources, Stack};

use crate::gpu;
use crate::program::{DEVICES, Event, FUNCTIONS, LINES, programs};
use crate::twin::{self, Figures};

/// The bytes allocated before, on each device.
pub(crate) const BEFORE: [u64; DEVICES] = [100, 7];

/// Reports a program's events to a stack for each thread.
pub(crate) struct Counted {
    pub(crate) rows: Arc<Rows>,
    first: LineId,
    stacks: Vec<Stack>,
    devices: Vec<DeviceId>,
    blocks: Vec<(usize, u64, Born)>,
    clock: Arc<AtomicU64>,
}

impl Counted {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&clock);
        let rows = Rows::new(&[(Place::HOST, BEFORE[0]), (gpu(), BEFORE[1])])
            .clock(move || Duration::from_nanos(read.load(Relaxed)));
        let rows = Arc::new(rows);
        let devices = rows.devices().map(|(device, _)| device).collect();
        let stacks = (0..3).map(|_| Stack::new(&rows)).collect();
        Self { rows, first: sources().iter().next().unwrap().0, stacks, devices, blocks: Vec::new(), clock }
    }

    pub(crate) fn play(&mut self, thread: usize, event: Event) {
        let stack = &mut self.stacks[thread];
        let line = |line| self.first.nth(line);
        match event {
            Event::Enter(number) => stack.enter(line(number)),
            Event::Mark(number) => stack.mark(line(number)),
            Event::LeftBlock(number) => stack.left_block(line(number)),
            Event::Leave => {
                let line = stack.line();
                assert_eq!(stack.leave(), line);
            }
            Event::Allocate { device, bytes } => {
                self.blocks.push((device, bytes, stack.allocated(self.devices[device], bytes)));
            }
            Event::Free(block) => {
                let (device, bytes, born) = self.blocks[block];
                stack.freed(self.devices[device], bytes, Some(born));
            }
            Event::OutOfMemory(device) => stack.out_of_memory(self.devices[device]),
            Event::Reserve { device, total } => stack.reserved(self.devices[device], total),
            Event::GradientOf(number) => stack.gradient_of(number.map(line)),
            Event::Works(time) => drop(self.clock.fetch_add(time, Relaxed)),
        }
    }
}

/// The functions of all programs, one after the other.
pub(crate) fn sources() -> Sources {
    let mut sources = Sources::new();
    for function in 0..FUNCTIONS {
        let source = Source::new(&format!("f{function}"), "src/net.rs");
        let first = u32::try_from(function).unwrap() * LINES;
        sources.add((0..LINES).fold(source, |source, line| source.line(first + line, "step();")));
    }
    sources
}

/// Converts a row to the twin's.
fn twins(row: &Row, devices: &[DeviceId]) -> twin::Row {
    let figures = |device| {
        let it = row.devices.get(device).copied().unwrap_or_default();
        Figures {
            peak: it.peak,
            reserved: it.reserved,
            rise: it.rise,
            current: it.current,
            allocated: it.allocated,
            freed: it.freed,
            kept: it.kept,
            backward: it.backward,
            ooms: it.ooms,
        }
    };
    let time = u64::try_from(row.time.as_nanos()).unwrap();
    twin::Row {
        hits: row.hits,
        stays: row.stays,
        time,
        devices: [figures(&devices[0]), figures(&devices[1])],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_those_of_the_twin(events in programs()) {
        let mut counted = Counted::new();
        for (thread, event) in &events {
            counted.play(*thread, *event);
        }
        let by_line = counted.rows.by_line();
        let numbers = (0..).map(|number| (counted.first.nth(number), Some(number)));
        let mut found: twin::Rows = numbers
            .take(FUNCTIONS * LINES as usize)
            .filter_map(|(line, number)| Some((number, twins(by_line.get(&line)?, &counted.devices))))
            .collect();
        found.insert(None, twins(&counted.rows.outside(), &counted.devices));
        found.retain(|_, row| *row != twin::Row::default());
        prop_assert_eq!(found, twin::rows(&events, BEFORE));
    }

    /// Kept bytes of all lines, plus the bytes from before, are the allocated bytes.
    #[test]
    fn every_byte_is_in_one_line(events in programs()) {
        let mut counted = Counted::new();
        for (thread, event) in &events {
            counted.play(*thread, *event);
        }
        for (device, before) in counted.devices.iter().zip(BEFORE) {
            let rows = counted.rows.by_line().into_values().chain([counted.rows.outside()]);
            let kept: u64 = rows.filter_map(|row| Some(row.devices.get(device)?.kept)).sum();
            prop_assert_eq!(before + kept, counted.rows.allocated_bytes(*device));
        }
    }
}
