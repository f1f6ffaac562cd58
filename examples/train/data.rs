//! The digits as tensors, for training and for testing.

use tch::{Device, Kind, Tensor};

use crate::Result;
use crate::digits::{COPIES, Digits};

/// Number of digits for training, each with its moved copies.
const TRAINING: usize = 1500;

pub(crate) struct Data {
    pub(crate) training: Set,
    /// The other digits, unmoved.
    pub(crate) test: Set,
}

/// Images and their classes.
pub(crate) struct Set {
    /// Images × 1 × 8 × 8, from 0 to 1.
    pub(crate) images: Tensor,
    pub(crate) classes: Tensor,
}

impl Data {
    /// Loads the digits with images of this number type.
    pub(crate) fn load(kind: Kind) -> Result<Self> {
        let Digits { images, classes } = Digits::load()?;
        let (learned, others) = (0..TRAINING * COPIES, TRAINING * COPIES..images.len());
        let select = |places: &mut dyn Iterator<Item = usize>| {
            let (mut pixels, mut shown) = (Vec::new(), Vec::new());
            for place in places {
                pixels.extend(images[place].map(|gray| f32::from(gray) / 16.0));
                shown.push(i64::from(classes[place]));
            }
            let images = Tensor::from_slice(&pixels).view([-1, 1, 8, 8]).to_kind(kind);
            Set { images, classes: Tensor::from_slice(&shown) }
        };
        // The copy in the middle is the one that is not moved.
        let unmoved = others.filter(|place| place % COPIES == COPIES / 2);
        Ok(Self { training: select(&mut { learned }), test: select(&mut { unmoved }) })
    }
}

impl Set {
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.classes.size()[0]).expect("sizes of tensors are natural numbers")
    }

    /// All images, in another order each time, `size` at a time.
    pub(crate) fn batches(&self, size: usize) -> impl Iterator<Item = Self> {
        let places = Tensor::randperm(self.classes.size()[0], (Kind::Int64, Device::Cpu));
        let parts = places.split(i64::try_from(size).expect("sizes of batches fit in i64"), 0);
        parts.into_iter().map(|places| self.select(&places))
    }

    /// The first `count` full batches, which are the same in every run.
    pub(crate) fn fixed_batches(size: usize, count: usize) -> Result<Vec<Self>> {
        let Data { training, .. } = Data::load(Kind::Float)?;
        tch::manual_seed(7);
        if training.len() < size {
            return Err(format!("--batch {size}: there are {} images", training.len()).into());
        }
        let batches = std::iter::repeat_with(|| training.batches(size)).flatten();
        Ok(batches.filter(|batch| batch.len() == size).take(count).collect())
    }

    fn select(&self, places: &Tensor) -> Self {
        Self { images: self.images.index_select(0, places), classes: self.classes.index_select(0, places) }
    }
}
