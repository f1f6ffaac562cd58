//! Whole runs in which only a limited number of rows fits.

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

/// A world: the amount of work, and the limit.
#[derive(Debug, Deserialize)]
pub(crate) struct World {
    pub(crate) name: String,
    rows: usize,
    /// The initial size of a call without a learned one.
    initial: usize,
    /// The most rows that fit.
    limit: usize,
    /// True if the limit is halved when half of the rows are done.
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

/// Sizes tried during one run, and the current limit.
struct Ledger {
    limit: usize,
    halves: bool,
    succeeded: Vec<usize>,
    out_of_memory: u32,
}

/// The memory source that the engine gets.
enum Memory {
    Host,
    /// A budget of libtorch's CPU tensors, which fails if more rows than the limit would fit.
    Counted(Counted),
}

struct Counted {
    device: toma_torch::Device,
    /// Bytes that an attempt allocates at any size, and bytes per row.
    fixed_bytes: u64,
    row_bytes: u64,
    /// Bytes allocated before the run.
    base_bytes: u64,
    budget: Cell<Option<Budget>>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(layer: &'a Layer, world: &'a World, is_counted: bool) -> Result<Self> {
        let (data, out) = (layer.input(world.rows)?, zeros(world.rows, 1)?.f_squeeze_dim(1)?);
        let memory = if is_counted { Memory::Counted(Counted::new(layer, &data)?) } else { Memory::Host };
        Ok(Self { layer, world, data, out, memory, ledger: RefCell::new(Ledger::new(world)) })
    }

    /// Makes a cold run, and one that starts with the size that the first has cached.
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
        // Sizes change the order of additions slightly; a missing row changes the result far more.
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
        // A body runs to this point before it runs out of memory.
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

    /// Records a piece; returns the limit if it has changed with this piece.
    fn done(&mut self, piece: std::ops::Range<usize>, rows: usize) -> Option<usize> {
        self.succeeded.push(piece.len());
        if !self.halves || piece.end * 2 < rows {
            return None;
        }
        // Lost for good: a run that begins again has no more memory than that.
        (self.halves, self.limit) = (false, self.limit / 2);
        Some(self.limit)
    }

    /// Returns the final size in percent of the limit: of the last piece but one, because the last is a rest.
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
            // Half a row more, so that a size within the limit never fails.
            let bytes = counted.row_bytes * rows as u64 + counted.row_bytes / 2;
            counted.budget.set(Some(Budget::new(counted.base_bytes + counted.fixed_bytes + bytes)));
        }
    }
}

impl Counted {
    /// Computes the bytes of attempts from two small ones. With very many rows the second half takes more than the
    /// first.
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
