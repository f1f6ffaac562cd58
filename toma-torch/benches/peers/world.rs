//! Whole runs where only so many rows fit.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use serde::Deserialize;
use tch::{TchError, Tensor};
use toma::memory::{Host, MemorySource};
use toma_torch::cpu::{self, Budget};

use crate::Result;
use crate::cases::Figures;
use crate::forms::{Rows, number};
use crate::layer::{Layer, run_out_of_memory, zeros};

/// How much there is to do, and what fits.
#[derive(Debug, Deserialize)]
pub(crate) struct World {
    pub(crate) name: String,
    rows: usize,
    /// The size that is tried when nothing is known.
    initial: usize,
    /// The most rows that fit.
    limit: usize,
    /// Whether half of it is lost when half of the rows are done.
    halves: bool,
}

pub(crate) fn all() -> Result<Vec<World>> {
    Ok(serde_json::from_str(include_str!("../../../benches/peers/worlds.json"))?)
}

/// All rows of a world through the layer.
pub(crate) struct Work<'a> {
    layer: &'a Layer,
    world: &'a World,
    data: Tensor,
    out: Tensor,
    memory: Memory,
    ledger: RefCell<Ledger>,
}

/// Which sizes were tried during one run, and what fits now.
struct Ledger {
    limit: usize,
    halves: bool,
    succeeded: Vec<usize>,
    out_of_memory: u32,
}

/// What the engine is told about memory.
enum Memory {
    Host,
    /// A budget of libtorch's CPU tensors, which is lost where more rows than the limit would fit.
    Counted(Counted),
}

struct Counted {
    device: toma_torch::Device,
    /// What an attempt allocates whatever its size, and what a row adds.
    fixed_bytes: u64,
    row_bytes: u64,
    /// What was there before.
    base_bytes: u64,
    budget: Cell<Option<Budget>>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(layer: &'a Layer, world: &'a World, is_counted: bool) -> Result<Self> {
        let (data, out) = (layer.input(world.rows)?, zeros(world.rows, 1)?.f_squeeze_dim(1)?);
        let memory = if is_counted { Memory::Counted(Counted::new(layer, &data)?) } else { Memory::Host };
        Ok(Self { layer, world, data, out, memory, ledger: RefCell::new(Ledger::new(world)) })
    }

    /// A cold run, and one that starts with what the first has left.
    pub(crate) fn runs(&self, call: impl Fn() -> std::result::Result<(), TchError>) -> Result<Figures> {
        let mut figures = Figures::new();
        for run in ["cold", "warm"] {
            self.begin();
            let begin = Instant::now();
            call()?;
            figures.insert(format!("{run}_ms"), begin.elapsed().as_secs_f64() * 1e3);
            self.check()?;
            let ledger = self.ledger.borrow();
            figures.insert(format!("{run}_ooms"), f64::from(ledger.out_of_memory));
            figures.insert(format!("{run}_kept_percent"), ledger.kept_percent());
        }
        Ok(figures)
    }

    fn begin(&self) {
        let ledger = Ledger::new(self.world);
        self.memory.limit(ledger.limit);
        self.ledger.replace(ledger);
        let _ = self.out.shallow_clone().zero_();
    }

    fn check(&self) -> Result<()> {
        let difference = self.layer.difference(&self.out)?;
        // Sizes change the order of additions, and a row left out is off by far more.
        if difference < 1e-2 {
            Ok(())
        } else {
            Err(format!("{}: results are off by {difference}", self.world.name).into())
        }
    }
}

impl Rows for Work<'_> {
    fn rows(&self) -> usize {
        self.world.rows
    }

    fn initial(&self) -> usize {
        self.world.initial
    }

    fn fixed(&self, share: usize) -> usize {
        self.world.limit / if self.world.halves { 2 } else { 1 } / share
    }

    fn data(&self) -> &Tensor {
        &self.data
    }

    fn memory(&self) -> &dyn MemorySource {
        match &self.memory {
            Memory::Host => Host::shared(),
            Memory::Counted(counted) => &counted.device,
        }
    }

    fn whole(&self, batch_size: usize) -> std::result::Result<(), TchError> {
        let end = self.rows();
        (0..end).step_by(batch_size).try_for_each(|start| self.piece(start, end.min(start + batch_size)))
    }

    fn piece(&self, start: usize, end: usize) -> std::result::Result<(), TchError> {
        self.chunk(&self.data.f_narrow(0, number(start), number(end - start))?, start, end)
    }

    fn chunk(&self, chunk: &Tensor, start: usize, end: usize) -> std::result::Result<(), TchError> {
        let (size, limit) = (end - start, self.ledger.borrow().limit);
        // A body gets so far before it runs out of memory.
        let hidden = self.layer.first_half(&chunk.f_narrow(0, 0, number(size.min(limit)))?)?;
        if size > limit {
            self.ledger.borrow_mut().out_of_memory += 1;
            return run_out_of_memory();
        }
        let mut out = self.out.f_narrow(0, number(start), number(size))?;
        out.f_copy_(&self.layer.second_half(&hidden)?)?;
        if let Some(limit) = self.ledger.borrow_mut().done(start..end, self.world.rows) {
            self.memory.limit(limit);
        }
        Ok(())
    }
}

impl Ledger {
    fn new(world: &World) -> Self {
        Self { limit: world.limit, halves: world.halves, succeeded: Vec::new(), out_of_memory: 0 }
    }

    /// Takes note of a piece; gives the limit where it has changed with it.
    fn done(&mut self, piece: std::ops::Range<usize>, rows: usize) -> Option<usize> {
        self.succeeded.push(piece.len());
        if !self.halves || piece.end * 2 < rows {
            return None;
        }
        // Once and for all: a run that begins again finds no more memory than that.
        (self.halves, self.limit) = (false, self.limit / 2);
        Some(self.limit)
    }

    /// The size in force at the end: of the last piece but one, for the last is what is left over.
    #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
    fn kept_percent(&self) -> f64 {
        let size = self.succeeded.iter().nth_back(1).or(self.succeeded.last()).copied().unwrap_or(0);
        size as f64 / self.limit as f64 * 100.0
    }
}

impl Memory {
    fn limit(&self, rows: usize) {
        if let Self::Counted(counted) = self {
            counted.budget.take();
            // Half a row more, so that none fails that has to fit.
            let bytes = counted.row_bytes * rows as u64 + counted.row_bytes / 2;
            counted.budget.set(Some(Budget::new(counted.base_bytes + counted.fixed_bytes + bytes)));
        }
    }
}

impl Counted {
    /// Two attempts tell what attempts allocate, as long as they are small: of very many rows the
    /// second half takes more than the first.
    fn new(layer: &Layer, data: &Tensor) -> Result<Self> {
        let base_bytes = cpu::allocated_bytes();
        let peak = |rows: i64| {
            cpu::reset_peak_allocated_bytes();
            let hidden = layer.first_half(&data.f_narrow(0, 0, rows)?)?;
            drop(layer.second_half(&hidden)?);
            Ok::<_, TchError>(cpu::peak_allocated_bytes() - base_bytes)
        };
        let (few, many) = (peak(256)?, peak(512)?);
        let row_bytes = (many - few) / 256;
        let device = toma_torch::Device::new(tch::Device::Cpu);
        Ok(Self {
            device,
            fixed_bytes: few - 256 * row_bytes,
            row_bytes,
            base_bytes,
            budget: Cell::new(None),
        })
    }
}
