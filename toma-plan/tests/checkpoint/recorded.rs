//! Regions that the tests record.

use proptest::bool::weighted;
use proptest::prelude::{Strategy, any as anything};
use proptest::sample::Index;

use toma_plan::checkpoint::recording::{NONE, Recorded, Recording, Slot, Value};

/// A region as the program that runs it knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    pub(crate) ops: u32,
    pub(crate) values: Vec<Value>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) stages: Vec<Recorded>,
}

impl Region {
    pub(crate) fn recording(&self) -> Recording<'_> {
        let Self { ops, values, slots, stages } = self;
        Recording { ops: *ops, values: values.into(), slots: slots.into(), stages: stages.into() }
    }

    pub(crate) fn current(&self) -> u32 {
        u32::try_from(self.stages.len()).unwrap() - 1
    }

    pub(crate) fn begin(&mut self) {
        self.stages.push(Recorded {
            first_op: self.ops,
            first_slot: u32::try_from(self.slots.len()).unwrap(),
            action: 0,
            holds_output: false,
            is_kept: false,
            is_saved: false,
        });
    }

    pub(crate) fn read(&mut self, value: usize) {
        let current = self.current();
        let value = &mut self.values[value];
        (value.last_op, value.last_stage) = (self.ops, current);
    }

    pub(crate) fn make(&mut self, storage: usize, bytes: u64) {
        let stage = self.current();
        self.values.push(Value {
            storage,
            storage_bytes: bytes,
            gradient_bytes: bytes / 2,
            stage,
            last_stage: stage,
            last_op: self.ops,
            is_alive: true,
            is_held: false,
            is_elsewhere: false,
        });
    }

    /// Saves a value, or memory of the operator's own.
    pub(crate) fn save(&mut self, value: Option<usize>, storage: usize, bytes: u64) {
        let (storage, bytes) =
            value.map_or((storage, bytes), |it| (self.values[it].storage, self.values[it].storage_bytes));
        let first = self.values.iter().position(|other| other.storage == storage);
        let maker = first.map_or(NONE, |it| u32::try_from(it).unwrap());
        let is_alive = value.is_some();
        self.slots.push(Slot {
            storage,
            bytes,
            held_storage: 0,
            maker,
            is_outside: false,
            is_dead: false,
            is_alive,
        });
    }

    pub(crate) fn slots_of(&self, stage: u32) -> impl Iterator<Item = &Slot> {
        let begin = self.stages[stage as usize].first_slot as usize;
        let end =
            self.stages.get(stage as usize + 1).map_or(self.slots.len(), |next| next.first_slot as usize);
        self.slots[begin..end].iter()
    }
}

/// An operator with two results, of which the second is a view of its input.
#[derive(Clone, Debug)]
pub(crate) struct Operator {
    begins: bool,
    reads: Index,
    bytes: u64,
    /// Saves its input, its result, memory of its own, and a tensor from outside.
    saves: [bool; 4],
    lives: [bool; 3],
    is_held: bool,
    is_kept: bool,
}

pub(crate) fn operator() -> impl Strategy<Value = Operator> {
    let flags = ([anything::<bool>(); 4], [anything::<bool>(); 3]);
    (weighted(0.3), anything::<Index>(), 0..=99_u64, flags, anything::<bool>(), weighted(0.01)).prop_map(
        |(begins, reads, bytes, (saves, lives), is_held, is_kept)| Operator {
            begins,
            reads,
            bytes,
            saves,
            lives,
            is_held,
            is_kept,
        },
    )
}

pub(crate) fn run(operators: &[Operator]) -> Region {
    let mut region = Region::default();
    for (number, operator) in operators.iter().enumerate() {
        if operator.begins || number == 0 {
            region.begin();
            let stage = region.stages.last_mut().unwrap();
            (stage.holds_output, stage.is_kept) = (operator.is_held, operator.is_kept);
        }
        let read = (number > 0).then(|| operator.reads.index(region.values.len()));
        if let Some(read) = read {
            region.read(read);
        }
        let storage = 3 * number + 1;
        region.make(storage, operator.bytes);
        let made = region.values.len() - 1;
        if let Some(Value { storage, storage_bytes, .. }) = read.map(|it| region.values[it]) {
            region.make(storage, storage_bytes);
        }
        let [input, output, own, outside] = operator.saves;
        for (_, value) in [(input, read), (output, Some(made))].into_iter().filter(|(saves, _)| *saves) {
            if value.is_some() {
                region.save(value, 0, 0);
            }
        }
        if own {
            region.save(None, storage + 1, operator.bytes / 3);
        }
        if outside {
            region.save(None, storage + 2, operator.bytes / 5);
            region.slots.last_mut().unwrap().is_outside = true;
        }
        let [value, slot, dead] = operator.lives;
        (region.values[made].is_alive, region.values[made].is_held) = (value, operator.is_held);
        if let Some(last) = region.slots.last_mut() {
            (last.is_alive, last.is_dead) = (slot, dead);
        }
        region.ops += 1;
    }
    region
}
