//! A small net learns handwritten digits.

use tch::nn::{self, OptimizerConfig as _};
use tch::{Device, Kind, Reduction, TchError, Tensor};
use toma::observe::Observer;
use toma::torch::profile::{self, Profiler, Stocktaking, inventory};
use toma::torch::{Backward as _, Loss};
use toma::{GlobalCache, execute};

use crate::Result;
use crate::data::{Data, Set};
use crate::show::Work;

pub(crate) struct Learning {
    net: Net,
    variables: nn::VarStore,
    optimizer: nn::Optimizer,
    batch: Set,
    device: toma::torch::Device,
    /// The size that worked, which the next step starts with.
    sizes: GlobalCache,
}

/// Two convolutions and a linear layer.
struct Net {
    first: nn::Conv2D,
    second: nn::Conv2D,
    last: nn::Linear,
}

impl Net {
    fn new(root: &nn::Path<'_>) -> Self {
        let padded = nn::ConvConfig { padding: 1, ..nn::ConvConfig::default() };
        Self {
            first: nn::conv2d(root / "first", 1, 16, 3, padded),
            second: nn::conv2d(root / "second", 16, 32, 3, padded),
            last: nn::linear(root / "last", 32 * 4 * 4, 10, nn::LinearConfig::default()),
        }
    }

    #[toma::profile]
    fn loss(&self, images: &Tensor, classes: &Tensor) -> Result<Tensor, TchError> {
        let edges = convolve(&self.first, images)?.f_relu()?;
        let shapes = convolve(&self.second, &edges)?.f_relu()?;
        let pooled = shapes.f_max_pool2d(2, 2, 0, 1, false)?.f_flatten(1, -1)?;
        let guess = pooled.f_linear(&self.last.ws, self.last.bs.as_ref())?;
        guess.f_cross_entropy_loss::<Tensor>(classes, None, Reduction::Mean, -100, 0.0)
    }
}

/// Like the layer's `forward`, which panics where this function returns an error.
fn convolve(layer: &nn::Conv2D, images: &Tensor) -> Result<Tensor, TchError> {
    images.f_conv2d(&layer.ws, layer.bs.as_ref(), 1, 1, 1, 1)
}

impl Learning {
    /// Uses this number of images in a step.
    pub(crate) fn new(images: usize) -> Result<Self> {
        let batch = Data::load(Kind::Float)?.training.batches(images).next().ok_or("there is no batch")?;
        let variables = nn::VarStore::new(Device::Cpu);
        let net = Net::new(&variables.root());
        let optimizer = nn::Adam::default().build(&variables, 5e-3)?;
        let device = toma::torch::Device::new(Device::Cpu);
        Ok(Self { net, variables, optimizer, batch, device, sizes: GlobalCache::new() })
    }
}

impl Work for Learning {
    fn about(&self) -> String {
        format!("A net learns from {} images of digits", self.batch.len())
    }

    fn items(&self) -> &'static str {
        "images"
    }

    fn profiler(&self) -> Profiler {
        let Set { images, classes } = &self.batch;
        Profiler::new().variables(&self.variables).label("images", images).label("classes", classes)
    }

    #[toma::profile]
    fn run(&mut self, observer: &dyn Observer) -> Result<()> {
        self.optimizer.zero_grad();
        let form = execute::with::<GlobalCache>().cache(&self.sizes).device(&self.device);
        let form = form.observer(observer).name("step");
        let variables = self.variables.trainable_variables();
        let batch = (&self.batch.images, &self.batch.classes);
        let loss = |(images, classes): (&Tensor, &Tensor)| self.net.loss(images, classes);
        let _mean = form.backward(Loss::Mean, &variables, batch, loss)?;
        profile::optimizer("Adam", || self.optimizer.step());
        Ok(())
    }

    fn inventory(&self) -> Stocktaking {
        let Set { images, classes } = &self.batch;
        inventory().variables(&self.variables).tensor("images", images).tensor("classes", classes)
    }
}
