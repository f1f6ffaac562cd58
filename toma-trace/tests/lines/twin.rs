//! Figures of lines, from the definitions: every event is kept, and every stay is an interval of events.

use std::collections::BTreeMap;

use crate::program::{DEVICES, Event};

/// One execution of a line in a frame. It contains the events from `begin` up to `end`.
#[derive(Clone, Debug)]
struct Stay {
    thread: usize,
    depth: usize,
    line: u32,
    begin: usize,
    end: usize,
}

impl Stay {
    fn contains(&self, event: usize) -> bool {
        self.begin <= event && event < self.end
    }

    fn is_inside(&self, other: &Self) -> bool {
        (other.thread, other.line) == (self.thread, self.line)
            && other.depth < self.depth
            && other.begin <= self.begin
            && self.end <= other.end
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) hits: u64,
    pub(crate) stays: u64,
    pub(crate) time: u64,
    pub(crate) devices: [Figures; DEVICES],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) peak: u64,
    pub(crate) reserved: u64,
    pub(crate) rise: u64,
    pub(crate) current: u64,
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
    pub(crate) kept: u64,
    pub(crate) backward: u64,
    pub(crate) ooms: u64,
}

/// Rows by line; events in no line are in the row of `None`.
pub(crate) type Rows = BTreeMap<Option<u32>, Row>;

struct Twin<'a> {
    events: &'a [(usize, Event)],
    stays: Vec<Stay>,
    /// Levels before each event, and after the last.
    levels: Vec<[(u64, u64); DEVICES]>,
    /// Device, bytes, and the event that made the block.
    blocks: Vec<(usize, u64, usize)>,
    clock: Vec<u64>,
}

pub(crate) fn rows(events: &[(usize, Event)], before: [u64; DEVICES]) -> Rows {
    let mut twin =
        Twin { events, stays: stays(events), levels: Vec::new(), blocks: Vec::new(), clock: vec![0] };
    twin.levels.push(before.map(|bytes| (bytes, 0)));
    for (index, (_, event)) in events.iter().enumerate() {
        twin.follow(index, *event);
    }
    let mut rows = Rows::new();
    twin.count_stays(&mut rows);
    twin.count_events(&mut rows);
    rows.retain(|_, row| *row != Row::default());
    rows
}

fn stays(events: &[(usize, Event)]) -> Vec<Stay> {
    let mut stays: Vec<Stay> = Vec::new();
    // By thread and depth: the current stay, and the line to which a left block went back.
    let mut frames: BTreeMap<usize, Vec<(usize, Option<u32>)>> = BTreeMap::new();
    for (index, (thread, event)) in events.iter().enumerate() {
        let frames = frames.entry(*thread).or_default();
        let mut force = |frames: &mut Vec<(usize, Option<u32>)>, line| {
            let (thread, depth) = (*thread, frames.len());
            if let Some((stay, _)) = frames.pop() {
                stays[stay].end = index;
                stays.push(Stay { thread, depth, line, begin: index, end: usize::MAX });
                frames.push((stays.len() - 1, None));
            }
        };
        if let (Event::Enter(_) | Event::Allocate { .. } | Event::OutOfMemory(_), Some((_, Some(line)))) =
            (event, frames.last().copied())
        {
            force(frames, line);
        }
        match *event {
            Event::Enter(line) => {
                let depth = frames.len() + 1;
                stays.push(Stay { thread: *thread, depth, line, begin: index, end: usize::MAX });
                frames.push((stays.len() - 1, None));
            }
            Event::Mark(line) => force(frames, line),
            Event::LeftBlock(line) => frames.last_mut().unwrap().1 = Some(line),
            Event::Leave => stays[frames.pop().unwrap().0].end = index,
            _ => {}
        }
    }
    stays
}

impl Twin<'_> {
    fn follow(&mut self, index: usize, event: Event) {
        let mut levels = self.levels[index];
        let mut clock = self.clock[index];
        match event {
            Event::Allocate { device, bytes } => {
                levels[device].0 += bytes;
                self.blocks.push((device, bytes, index));
            }
            Event::Free(block) => levels[self.blocks[block].0].0 -= self.blocks[block].1,
            Event::Reserve { device, total } => levels[device].1 = total,
            Event::Works(time) => clock += time,
            _ => {}
        }
        self.levels.push(levels);
        self.clock.push(clock);
    }

    fn count_stays(&self, rows: &mut Rows) {
        for stay in &self.stays {
            let row = rows.entry(Some(stay.line)).or_default();
            row.stays += 1;
            if self.is_outermost(stay) {
                row.time += self.clock[stay.end] - self.clock[stay.begin];
            }
            for (device, figures) in row.devices.iter_mut().enumerate() {
                let during = self.levels[stay.begin..=stay.end].iter().map(|levels| levels[device]);
                let peak = during.clone().map(|(allocated, _)| allocated).max().unwrap();
                figures.peak = figures.peak.max(peak);
                figures.reserved = figures.reserved.max(during.map(|(_, reserved)| reserved).max().unwrap());
                figures.rise = figures.rise.max(peak - self.levels[stay.begin][device].0);
                figures.current = figures.current.max(self.levels[stay.end][device].0);
            }
        }
    }

    fn is_outermost(&self, stay: &Stay) -> bool {
        !self.stays.iter().any(|other| stay.is_inside(other))
    }

    fn count_events(&self, rows: &mut Rows) {
        let mut gradient_of = BTreeMap::new();
        for (index, (thread, event)) in self.events.iter().enumerate() {
            match *event {
                Event::Mark(line) => rows.entry(Some(line)).or_default().hits += 1,
                Event::GradientOf(line) => drop(gradient_of.insert(thread, line)),
                Event::Allocate { device, bytes } => {
                    self.in_rows(index, rows, |row| row.devices[device].allocated += bytes);
                    rows.entry(self.line(index)).or_default().devices[device].kept += bytes;
                    if let Some(Some(line)) = gradient_of.get(&thread) {
                        rows.entry(Some(*line)).or_default().devices[device].backward += bytes;
                    }
                }
                Event::Free(block) => {
                    let (device, bytes, born) = self.blocks[block];
                    self.in_rows(index, rows, |row| row.devices[device].freed += bytes);
                    rows.entry(self.line(born)).or_default().devices[device].kept -= bytes;
                }
                Event::OutOfMemory(device) => self.in_rows(index, rows, |row| row.devices[device].ooms += 1),
                _ => {}
            }
        }
    }

    /// Counts an event once in each line that it is in.
    fn in_rows(&self, event: usize, rows: &mut Rows, count: impl Fn(&mut Row)) {
        let Some(thread) = self.owner(event) else { return count(rows.entry(None).or_default()) };
        for stay in self.stays.iter().filter(|stay| stay.thread == thread && stay.contains(event)) {
            if self.is_outermost(stay) {
                count(rows.entry(Some(stay.line)).or_default());
            }
        }
    }

    /// The thread whose lines an event is in: its own, or the only one that is in any line.
    fn owner(&self, event: usize) -> Option<usize> {
        let mut threads: Vec<_> =
            self.stays.iter().filter(|stay| stay.contains(event)).map(|stay| stay.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        let own = self.events[event].0;
        match threads[..] {
            _ if threads.contains(&own) => Some(own),
            [only] => Some(only),
            _ => None,
        }
    }

    fn line(&self, event: usize) -> Option<u32> {
        let thread = self.owner(event)?;
        let stays = self.stays.iter().filter(|stay| stay.thread == thread && stay.contains(event));
        Some(stays.max_by_key(|stay| stay.depth)?.line)
    }
}
