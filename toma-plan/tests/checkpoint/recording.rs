//! Decisions about a region while it is recorded, and its sizes, against slow and obvious sums.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prop_assert_eq;

use toma_plan::checkpoint::Stage;
use toma_plan::checkpoint::recording::{Boundary, Draft, Ledger, Readings, Recording, Run, Slot, Value};

use crate::recorded::{Operator, Region, operator, run};
use crate::rounds::rounds;
use crate::runner;

/// Sum over storages that occur, without those in `except`.
fn sum<'a>(
    values: impl Iterator<Item = &'a Value>,
    slots: impl Iterator<Item = &'a Slot>,
    except: &BTreeSet<usize>,
) -> u64 {
    let values = values.map(|value| (value.storage, value.storage_bytes));
    let slots = slots.map(|slot| (slot.storage, slot.bytes));
    let all: BTreeMap<_, _> = values.chain(slots).filter(|(storage, _)| !except.contains(storage)).collect();
    all.values().sum()
}

fn no_slots() -> std::iter::Empty<&'static Slot> {
    std::iter::empty()
}

/// A region whose stages have been merged; `numbers` has the number of each original stage.
struct Merged<'a> {
    region: &'a Region,
    numbers: Vec<u32>,
}

impl Merged<'_> {
    fn number(&self, stage: u32) -> u32 {
        self.numbers[stage as usize]
    }

    fn count(&self) -> u32 {
        self.numbers.last().unwrap() + 1
    }

    fn passing(&self, boundary: u32) -> impl Iterator<Item = &Value> {
        self.region.values.iter().filter(move |value| {
            self.number(value.stage) <= boundary && boundary < self.number(value.last_stage)
        })
    }

    fn slots(&self, stage: u32) -> impl Iterator<Item = &Slot> {
        let stages = (0..).zip(&self.numbers).filter(move |(_, number)| **number == stage);
        let slots = stages.flat_map(|(original, _)| self.region.slots_of(original));
        slots.filter(|slot| !slot.is_outside)
    }

    /// Slots of a stage whose memory the stage has made, as far as anybody knows.
    fn own(&self, stage: u32) -> impl Iterator<Item = &Slot> {
        self.slots(stage).filter(move |slot| {
            let maker = self.region.values.get(slot.maker as usize);
            maker.is_none_or(|value| self.number(value.stage) == stage)
        })
    }

    fn saved(&self) -> BTreeSet<usize> {
        self.region.slots.iter().filter(|slot| !slot.is_dead).map(|slot| slot.storage).collect()
    }

    fn inner(&self, stage: u32) -> u64 {
        let follows = |value: &&Value| {
            let may_follow = stage + 1 == self.count() && value.is_alive;
            self.number(value.stage) <= stage && (stage < self.number(value.last_stage) || may_follow)
        };
        let output = self.region.values.iter().filter(follows).map(|value| value.storage).collect();
        sum([].iter(), self.own(stage).filter(|slot| !slot.is_dead), &output)
    }

    /// Memory that stages after this one use, or that the program goes on to use.
    fn used_after(&self, stage: u32) -> BTreeSet<usize> {
        let is_used = |value: &&Value| value.is_alive || self.number(value.last_stage) > stage;
        self.region.values.iter().filter(is_used).map(|value| value.storage).collect()
    }

    fn is_made_in(&self, stage: u32, value: &Value) -> bool {
        self.number(value.stage) == stage
    }

    fn idle(&self, stage: u32) -> u64 {
        let made = self.passing(stage).filter(|value| self.is_made_in(stage, value));
        let next = made.filter(|value| self.number(value.last_stage) == stage + 1);
        sum(next, no_slots(), &(&self.saved() | &self.used_after(stage + 1)))
    }

    fn of_program(&self, stage: u32) -> u64 {
        let maker = |slot: &Slot| self.region.values.get(slot.maker as usize);
        let next = self
            .slots(stage + 1)
            .filter(|slot| maker(slot).is_some_and(|value| self.is_made_in(stage, value)));
        let is_alive = |storage: usize| {
            let is_held = self.region.values.iter().any(|it| it.is_held && it.storage == storage);
            !is_held && self.region.slots.iter().any(|it| it.is_alive && it.storage == storage)
        };
        let slots = self.own(stage).chain(next).filter(|slot| !slot.is_dead && is_alive(slot.storage));
        sum([].iter(), slots, &self.used_after(stage + 1))
    }

    fn is_idle(&self, boundary: u32) -> bool {
        let all = sum(self.passing(boundary), no_slots(), &BTreeSet::new());
        let idle = sum(self.passing(boundary), no_slots(), &self.saved());
        let is_small = |stage| 2 * self.inner(stage) <= all;
        2 * idle > all && (is_small(boundary) || is_small(boundary + 1))
    }
}

fn separate(region: &Region) -> Merged<'_> {
    Merged { region, numbers: (0..=region.current()).collect() }
}

/// Returns the stages that are one with the stage before them, from the last to the first.
fn merged(region: &Region) -> (Merged<'_>, Vec<u32>) {
    let mut now = separate(region);
    let mut found = Vec::new();
    if region.stages.iter().any(|stage| stage.is_kept) {
        return (now, found);
    }
    for second in (1..=region.current()).rev() {
        if now.is_idle(second - 1) {
            now.numbers[second as usize..].iter_mut().for_each(|number| *number -= 1);
            found.push(second);
        }
    }
    (now, found)
}

fn drops_input(region: &Region) -> bool {
    let Some(boundary) = region.current().checked_sub(1) else { return false };
    let held = (0..boundary).rev().find(|stage| region.stages[*stage as usize].holds_output);
    let since = held.map_or(0, |held| held + 1);
    let none = BTreeSet::new();
    let is_dropped = |slot: &&Slot| !slot.is_outside && !slot.is_alive;
    let slots = (since..=boundary).flat_map(|stage| region.slots_of(stage)).filter(is_dropped);
    let dropped = sum([].iter(), slots, &none);
    let one = separate(region);
    let held = region.values.iter().filter(|value| value.is_held);
    2 * sum(one.passing(boundary), no_slots(), &none) > dropped
        || sum(held, no_slots(), &none) > dropped
        || one.is_idle(boundary)
}

#[test]
fn decisions_are_those_of_slow_sums() {
    let reached = Cell::new([0; 4]);
    let holds = |operators: Vec<Operator>| {
        let region = run(&operators);
        let drops = region.recording().drops_input();
        prop_assert_eq!(drops, drops_input(&region));
        let mut ledger = Ledger::default();
        for _ in &region.stages {
            ledger.stage_begins(&region.recording(), 0);
            ledger.stage_ends(Run::default());
        }
        let found = ledger.ends(region.recording(), 0);
        let (twin, stages) = merged(&region);
        prop_assert_eq!(&found, &stages);
        prop_assert_eq!(ledger.stages().len(), twin.count() as usize);
        for stage in (0..twin.count()).rev() {
            ledger.backward_ends(stage, Run::default(), true);
        }
        let costs = ledger.costs(0, 0).unwrap().unwrap();
        let none = BTreeSet::new();
        let kept = region.stages.iter().any(|stage| stage.is_kept);
        for (stage, cost) in (0..).zip(costs.stages()) {
            let passing = || twin.passing(stage);
            let made = passing().filter(|value| twin.number(value.stage) == stage);
            let output = sum(passing(), no_slots(), &none);
            let saved = sum(made, twin.own(stage), &none);
            let united = if cost.must_save {
                sum(passing(), twin.slots(stage), &none)
            } else {
                sum(passing(), twin.own(stage), &none)
            };
            let held = if cost.must_save { united } else { saved.max(output) };
            prop_assert_eq!((cost.output_bytes, cost.saved_bytes), (output, held));
            prop_assert_eq!(cost.passing_bytes, united - held);
            let parts = if kept { (0, 0) } else { (twin.idle(stage), twin.of_program(stage)) };
            prop_assert_eq!((cost.idle_bytes, cost.program_bytes), parts);
            prop_assert_eq!(cost.gradient_bytes, passing().map(|value| value.gradient_bytes).sum::<u64>());
        }
        let now = [drops, !drops, !found.is_empty(), kept].map(u64::from);
        reached.set(std::array::from_fn(|at| reached.get()[at] + now[at]));
        Ok(())
    };
    let cases = rounds(1_000, 20_000);
    runner(cases).run(&vec(operator(), 1..=24), holds).unwrap();
    assert!(reached.get().into_iter().all(|times| times > u64::from(cases) * 3 / 100), "{:?}", reached.get());
}

/// Runs layers of two operators: a wide result that backward needs, then a narrow one that the next layer reads.
/// Returns the first operators of the stages.
fn narrow_waists(layers: u32) -> Vec<u32> {
    let mut region = Region::default();
    let mut draft = Draft::default();
    for op in 0..2 * layers {
        if region.stages.is_empty() || draft.boundary(&region.recording()) != Boundary::None {
            region.begin();
        }
        let before = region.values.len().checked_sub(1);
        if let Some(before) = before {
            region.read(before);
            region.values[..before].iter_mut().for_each(|value| value.is_alive = false);
        }
        region.make(op as usize + 1, if op % 2 == 0 { 1000 } else { 10 });
        // The wide value is saved where it is read, and is gone once the narrow one is there.
        if let Some(before) = before.filter(|_| op % 2 == 1) {
            region.save(Some(before), 0, 0);
            region.values[before].is_alive = false;
            region.slots.last_mut().unwrap().is_alive = false;
        }
        region.ops += 1;
    }
    region.stages.iter().map(|stage| stage.first_op).collect()
}

#[test]
fn stages_end_where_little_is_alive_and_grow_with_the_region() {
    let few = narrow_waists(40);
    assert!(few.len() > 4 && few.iter().all(|op| op % 2 == 0), "{few:?}");
    let many = narrow_waists(4_000);
    assert!(many.iter().all(|op| op % 2 == 0));
    let lengths: Vec<_> = many.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(lengths[lengths.len() - 1] > 3 * lengths[0], "{lengths:?}");
    assert!(many.len() < 350, "{} stages", many.len());
}

/// Live bytes fall to 200, where a stage begins, and two operators later to 50, where it begins instead.
#[test]
fn the_begin_of_a_stage_moves_on_while_live_bytes_fall() {
    let mut region = Region::default();
    let mut draft = Draft::default();
    let mut found = Vec::new();
    // The bytes that each operator makes; before it, all but the last `survivors` have ended.
    for (bytes, survivors) in [(1000, 0), (1000, 1), (200, 2), (100, 1), (50, 2), (500, 1), (500, 2)] {
        let first = region.values.len().saturating_sub(survivors);
        region.values[..first].iter_mut().for_each(|value| value.is_alive = false);
        region.slots.iter_mut().zip(&region.values).for_each(|(slot, value)| slot.is_alive = value.is_alive);
        let boundary = draft.boundary(&region.recording());
        found.push(boundary);
        if boundary != Boundary::None {
            region.begin();
        }
        region.make(region.values.len() + 1, bytes);
        region.save(Some(region.values.len() - 1), 0, 0);
        region.ops += 1;
    }
    let expected =
        [Boundary::New, Boundary::None, Boundary::None, Boundary::New, Boundary::None, Boundary::Moved];
    assert_eq!(found[..6], expected);
}

/// Runs equal stages, each of which drops three times its output; returns the number of inputs that are held at the
/// end.
fn held_inputs(stages: u32) -> usize {
    let mut region = Region::default();
    for stage in 0..stages {
        if region.recording().drops_input() {
            region.stages[stage as usize - 2].holds_output = false;
            region.values[stage as usize - 2].is_held = false;
        }
        region.begin();
        // The input of this stage is held until the stage ends.
        if let Some(before) = stage.checked_sub(1).map(|before| before as usize) {
            region.stages[before].holds_output = true;
            region.read(before);
            region.values[before].is_held = true;
            region.save(Some(before), 0, 0);
        }
        region.make(2 * stage as usize + 1, 10);
        region.save(None, 2 * stage as usize + 2, 30);
        region.ops += 1;
    }
    region.values.iter().filter(|value| value.is_held).count()
}

#[test]
fn the_first_run_holds_the_inputs_of_few_stages() {
    let held = [8, 32, 128, 512].map(held_inputs);
    assert!(held.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= 3 * pair[0]), "{held:?}");
    assert!((16..=64).contains(&held[3]), "some sqrt(2 * 512) of 512: {held:?}");
}

#[test]
fn a_ledger_counts_what_the_region_does_not_hold() {
    let mut region = Region::default();
    let mut ledger = Ledger::default();
    let run = |elapsed_ns, dropping_peak_bytes, saving_peak_bytes| Run {
        elapsed_ns,
        dropping_peak_bytes,
        saving_peak_bytes,
    };
    region.begin();
    ledger.stage_begins(&region.recording(), 0);
    region.make(1, 100);
    region.ops += 1;
    ledger.stage_ends(run(10, 420, 430));
    region.begin();
    ledger.stage_begins(&region.recording(), 105);
    region.read(0);
    region.values[0].is_held = true;
    region.make(2, 40);
    region.save(Some(0), 0, 0);
    region.save(None, 3, 30);
    region.ops += 1;
    ledger.stage_ends(run(20, 360, 390));
    assert!(ledger.ends(region.recording(), 8).is_empty());
    // The loss and its gradients take 200 bytes beyond the held value.
    ledger.backward_arrives(&region.recording(), 300, 50);
    ledger.repeated(1, true, run(21, 350, 400));
    // The slot holds new memory now, and a variable has got its gradient of 8 bytes.
    region.slots[1].held_storage = 9;
    let now = Readings { allocated_bytes: 358, lacking_bytes: 0 };
    ledger.backward_begins(&region.recording(), 1, now);
    ledger.backward_ends(1, run(5, 0, 90), true);
    // Nothing is held any more: beyond the gradient of the output, 40 bytes are of others.
    (region.values[0].is_held, region.slots[1].held_storage) = (false, 0);
    ledger.backward_begins(&region.recording(), 0, Readings { allocated_bytes: 98, lacking_bytes: 0 });
    ledger.backward_ends(0, run(6, 0, 70), true);
    let costs = ledger.costs(7, 0).unwrap().unwrap();
    let [first, last] = costs.stages() else { panic!("two stages") };
    assert_eq!((first.output_bytes, first.saved_bytes, first.gradient_bytes), (100, 100, 50));
    assert_eq!((last.output_bytes, last.saved_bytes, last.gradient_bytes), (0, 30, 200));
    // Peaks of first runs came before those 200 bytes. Five bytes were of others when the last stage began.
    assert_eq!([first.forward_peak_bytes, first.saving_peak_bytes], [120, 130]);
    assert_eq!([last.forward_peak_bytes, last.saving_peak_bytes], [165, 185]);
    assert_eq!([last.repeat_peak_bytes, last.repeat_saving_peak_bytes], [350, 370]);
    assert_eq!(last.backward_peak_bytes, 90 - 50);
    assert_eq!([first.repeat_peak_bytes, first.repeat_saving_peak_bytes], [320 + 40, 330 + 40]);
    assert_eq!(first.backward_peak_bytes, 40);
    assert_eq!(ledger.stages()[1].backward_ns, 5);
}

/// Those of the last stage are there when the backward of the first begins, and those of the first come afterwards.
#[test]
fn gradients_of_variables_belong_to_the_stage_that_makes_them() {
    let (mut region, mut ledger) = (Region::default(), Ledger::default());
    let run = Run { elapsed_ns: 1, dropping_peak_bytes: 30, saving_peak_bytes: 30 };
    for storage in 1..3 {
        region.begin();
        ledger.stage_begins(&region.recording(), 0);
        region.make(storage, 10);
        region.save(None, storage + 5, 30);
        region.ops += 1;
        ledger.stage_ends(run);
    }
    ledger.ends(region.recording(), 30);
    ledger.backward_arrives(&region.recording(), 0, 0);
    for (stage, lacking_bytes) in [(1, 30), (0, 10)] {
        let now = Readings { allocated_bytes: 0, lacking_bytes };
        ledger.backward_begins(&region.recording(), stage, now);
        ledger.backward_ends(stage, run, true);
    }
    let costs = ledger.costs(0, 7).unwrap().unwrap();
    assert_eq!([0, 1].map(|stage| costs.stages()[stage].variable_gradient_bytes), [7, 20]);
    assert_eq!([0, 7, 10, 20].map(|first| ledger.counted_gradient_bytes(30, first)), [20, 27, 30, 30]);
    assert_eq!(ledger.counted_gradient_bytes(31, 7), 0, "a variable had its gradient");
    let without = costs.without_variable_gradients();
    assert_eq!([0, 1].map(|stage| without.stages()[stage].variable_gradient_bytes), [0, 0]);
}

/// A kept stage holds what it saves while the next one runs, which no peak of that one counts again.
#[test]
fn what_a_kept_stage_holds_counts_once() {
    let (mut region, mut ledger) = (Region::default(), Ledger::default());
    let run =
        |peak_bytes| Run { elapsed_ns: 1, dropping_peak_bytes: peak_bytes, saving_peak_bytes: peak_bytes };
    let readings = |allocated_bytes| Readings { allocated_bytes, lacking_bytes: 0 };
    region.begin();
    ledger.stage_begins(&region.recording(), 0);
    region.make(1, 100);
    region.ops += 1;
    ledger.stage_ends(run(100));
    region.begin();
    ledger.stage_begins(&region.recording(), 100);
    region.stages[1].is_kept = true;
    region.read(0);
    region.save(Some(0), 0, 0);
    region.save(None, 3, 30);
    region.make(2, 40);
    region.ops += 1;
    ledger.stage_ends(run(70));
    region.slots.iter_mut().for_each(|slot| slot.held_storage = slot.storage);
    region.begin();
    ledger.stage_begins(&region.recording(), 100 + 30 + 40);
    region.read(1);
    region.make(4, 8);
    region.ops += 1;
    ledger.stage_ends(run(8));
    assert!(ledger.ends(region.recording(), 0).is_empty());
    ledger.backward_arrives(&region.recording(), 100, 0);
    ledger.backward_begins(&region.recording(), 1, readings(170));
    ledger.backward_ends(1, run(0), true);
    let costs = ledger.costs(0, 0).unwrap().unwrap();
    let [_, kept, last] = costs.stages() else { panic!("three stages") };
    assert_eq!((kept.must_save, kept.saved_bytes, kept.output_bytes), (true, 100 + 30 + 40, 40));
    assert_eq!([last.forward_peak_bytes, last.saving_peak_bytes], [8, 8]);
}

/// The first stage makes a value that the next one reads and nothing saves.
#[test]
fn an_output_that_backward_does_not_need_is_idle() {
    let (mut region, mut ledger) = (Region::default(), Ledger::default());
    let run = |saving_peak_bytes| Run { saving_peak_bytes, ..Run::default() };
    region.begin();
    ledger.stage_begins(&region.recording(), 0);
    region.make(1, 100);
    region.save(None, 2, 60);
    region.ops += 1;
    ledger.stage_ends(run(160));
    region.begin();
    ledger.stage_begins(&region.recording(), 100);
    region.read(0);
    region.make(3, 40);
    region.save(None, 4, 60);
    region.values[0].is_alive = false;
    ledger.stage_ends(run(100));
    assert!(ledger.ends(region.recording(), 0).is_empty());
    ledger.backward_arrives(&region.recording(), 0, 0);
    // The slot of the first stage holds its memory, and the gradient of the value takes 50 bytes.
    region.slots[0].held_storage = 2;
    ledger.backward_begins(&region.recording(), 0, Readings { allocated_bytes: 110, lacking_bytes: 0 });
    ledger.backward_ends(0, run(25), true);
    let costs = ledger.costs(0, 0).unwrap().unwrap();
    let [first, last] = costs.stages() else { panic!("two stages") };
    assert_eq!((first.output_bytes, first.saved_bytes, first.idle_bytes), (100, 160, 100));
    assert_eq!(first.backward_peak_bytes, 25);
    assert_eq!((last.saved_bytes, last.idle_bytes), (60, 0));
}

/// Each stage saves its output, which the next one reads and the program holds until the last one has run.
#[test]
fn bytes_that_the_program_holds_as_well_are_recorded() {
    let (mut region, mut ledger) = (Region::default(), Ledger::default());
    for stage in 0..4 {
        region.begin();
        ledger.stage_begins(&region.recording(), 100 * i64::from(stage));
        if let Some(before) = usize::try_from(stage).unwrap().checked_sub(1) {
            region.read(before);
        }
        region.make(region.values.len() + 1, 100);
        region.save(Some(region.values.len() - 1), 0, 0);
        region.ops += 1;
        ledger.stage_ends(Run { saving_peak_bytes: 100, ..Run::default() });
    }
    region.values[..3].iter_mut().for_each(|value| value.is_alive = false);
    // It was not there when the last stage began.
    region.slots[3].is_alive = false;
    assert!(ledger.ends(region.recording(), 0).is_empty());
    (0..4).rev().for_each(|stage| ledger.backward_ends(stage, Run::default(), true));
    let costs = ledger.costs(0, 0).unwrap().unwrap();
    let of = |bytes: fn(&Stage) -> u64| costs.stages().iter().map(bytes).collect::<Vec<_>>();
    assert_eq!(of(|stage| stage.saved_bytes), [100; 4]);
    assert_eq!(of(|stage| stage.program_bytes), [100, 100, 100, 0]);
    // The peaks include the outputs of all stages but the one before.
    assert_eq!(of(|stage| stage.saving_peak_bytes), [0, 0, 100, 200]);
    // All outputs, and the gradient of the last stage's input.
    assert_eq!(costs.keep_all_bytes(), 400 + 50);
}

#[test]
fn an_empty_recording_decides_nothing() {
    assert!(!Recording::default().drops_input());
    let mut ledger = Ledger::default();
    assert!(ledger.costs(0, 0).is_none());
    ledger.stage_begins(&Recording::default(), 7);
    assert!(ledger.ends(Recording::default(), 0).is_empty());
    ledger.backward_arrives(&Recording::default(), 0, 0);
    ledger.backward_begins(&Recording::default(), 0, Readings::default());
    assert_eq!(ledger.stages().len(), 1);
}

/// An operator of the third stage writes to a tensor of the first one, and later one of the fourth does.
#[test]
fn the_first_run_of_joined_stages_is_that_of_all_of_them() {
    let run = |elapsed_ns, peak_bytes| Run {
        elapsed_ns,
        dropping_peak_bytes: peak_bytes,
        saving_peak_bytes: peak_bytes + 1,
    };
    let (mut ledger, recording) = (Ledger::default(), Recording::default());
    ledger.stage_begins(&recording, 10);
    ledger.stage_ends(run(1, 300));
    ledger.stage_begins(&recording, 50);
    ledger.stage_ends(run(2, 90));
    ledger.stage_begins(&recording, 70);
    ledger.joins(0);
    ledger.stage_ends(run(4, 250));
    assert_eq!(ledger.stages().len(), 1);
    assert_eq!(ledger.stages()[0].first, run(7, 310));
    ledger.stage_begins(&recording, 110);
    ledger.joins(0);
    ledger.stage_ends(run(8, 200));
    assert_eq!(ledger.stages()[0].first, run(15, 310));
}
