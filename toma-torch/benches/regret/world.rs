//! Worlds: a net, the amount of work, and the limit.

use std::fmt;

use tch::{Device, Kind, TchError, Tensor, no_grad};
use toma_torch::cpu::{self, Budget};

/// One world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) net: Net,
    /// Items to process.
    pub(crate) items: usize,
    /// The initial size of a call without a learned one.
    pub(crate) initial: usize,
    /// The largest size that fits.
    pub(crate) limit: usize,
}

/// The net that processes the items. Its activations take most of the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Net {
    /// Two layers with this many units between them. Their weights are kept in half precision, and each attempt
    /// converts them, which takes bytes in addition to its items.
    Layers(i64),
    /// Attention over sequences of this many tokens.
    Attention(i64),
}

/// Figures of an item, or of a token.
const WIDTH: i64 = 64;

/// All worlds.
pub(crate) fn grid() -> Vec<World> {
    let mut worlds = Vec::new();
    for net in [Net::Layers(1024), Net::Layers(4096), Net::Attention(16)] {
        for (items, initial, limit) in [
            (10_000, 512, 37),
            (10_000, 512, 100),
            (50_000, 512, 37),
            (50_000, 512, 300),
            (50_000, 4096, 900),
        ] {
            worlds.push(World { net, items, initial, limit });
        }
    }
    worlds
}

/// A world that is done at once.
pub(crate) fn small() -> World {
    World { net: Net::Layers(64), items: 500, initial: 64, limit: 20 }
}

/// A world with its tensors, and with no more memory than it allows.
pub(crate) struct Stage<'a> {
    pub(crate) world: &'a World,
    data: Tensor,
    weights: Vec<Tensor>,
    out: Tensor,
    /// Held while the world is there.
    budget: Option<Budget>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        let items = number(world.items);
        let random = |shape: &[i64]| Tensor::randn(shape, (Kind::Float, Device::Cpu));
        let (data, weights) = match world.net {
            Net::Layers(units) => {
                (random(&[items, WIDTH]), vec![random(&[WIDTH, units]), random(&[units, WIDTH])])
            }
            Net::Attention(tokens) => (random(&[items, tokens, WIDTH]), Vec::new()),
        };
        // Moved, because live tensors are part of the allocated bytes when the budget is made.
        let weights = weights.into_iter().map(|weights| (weights * 0.1).to_kind(Kind::Half)).collect();
        let out = Tensor::zeros([items, WIDTH], (Kind::Float, Device::Cpu));
        let mut stage = Self { world, data, weights, out, budget: None };
        let needs = stage.bytes(world.limit);
        let more = stage.bytes(world.limit + 1);
        assert!(needs < more, "{world}: one item more needs no more than {needs} bytes");
        stage.budget = Some(Budget::beyond_allocated(u64::midpoint(needs, more)));
        assert!(
            stage.attempt(0, world.limit).is_ok() && stage.attempt(0, world.limit + 1).is_err(),
            "{world}"
        );
        stage
    }

    /// Bytes that an attempt of this size needs.
    fn bytes(&self, size: usize) -> u64 {
        let before = cpu::allocated_bytes();
        cpu::reset_peak_allocated_bytes();
        self.attempt(0, size).expect("there is no limit yet");
        cpu::peak_allocated_bytes() - before
    }

    /// One attempt at some items.
    pub(crate) fn attempt(&self, start: usize, end: usize) -> Result<(), TchError> {
        let (start, size) = (number(start), number(end - start));
        no_grad(|| {
            let items = self.data.f_narrow(0, start, size)?;
            let result = match self.world.net {
                Net::Layers(_) => layers(&items, &self.weights),
                Net::Attention(_) => attention(&items),
            }?;
            self.out.f_narrow(0, start, size)?.f_copy_(&result).map(drop)
        })
    }
}

fn layers(items: &Tensor, weights: &[Tensor]) -> Result<Tensor, TchError> {
    let (first, second) = (weights[0].f_to_kind(Kind::Float)?, weights[1].f_to_kind(Kind::Float)?);
    let sums = items.f_matmul(&first)?;
    sums.f_relu()?.f_matmul(&second)
}

fn attention(items: &Tensor) -> Result<Tensor, TchError> {
    let scores = items.f_bmm(&items.f_transpose(1, 2)?)?;
    let shares = scores.f_softmax(-1, Kind::Float)?;
    shares.f_bmm(items)?.f_mean_dim(1, false, Kind::Float)
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { net, items, initial, limit } = self;
        write!(f, "{net:?}, {items} items, {initial} at first, {limit} fit")
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("small")
}
