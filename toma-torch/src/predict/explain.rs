use std::fmt;

use toma_core::predict::bytes_for_people;
use toma_plan::{Growth, Line};

use super::prediction::Prediction;

/// Number of the largest storages that are listed.
const LARGEST: usize = 5;

/// Sizes of the table.
const SIZES: [u32; 6] = [1, 4, 16, 64, 256, 1024];

impl Prediction {
    /// Describes the bytes of a piece and of each further item, the largest holders at the peak of the largest size
    /// that was run dry, and bytes at several sizes, for people.
    pub fn explain(&self) -> String {
        self.explain_at(self.traces.iter().map(|(size, _)| *size).max().unwrap_or_default())
    }

    /// Describes the peak of this size; otherwise as [`explain`](Self::explain).
    ///
    /// ```
    /// use tch::{Kind, Tensor};
    /// use toma_torch::{Device, predict};
    ///
    /// let device = Device::new(tch::Device::Cpu);
    /// let weight = Tensor::ones([64, 64], (Kind::Float, tch::Device::Cpu));
    /// let step = |size| Tensor::ones([size as i64, 64], (Kind::Float, tch::Device::Cpu)).matmul(&weight).relu();
    /// println!("{}", predict(&device, step)?.explain_at(512)); // the largest tensors, and bytes by size
    /// # Ok::<(), toma_torch::Error>(())
    /// ```
    pub fn explain_at(&self, size: u32) -> String {
        Explanation { prediction: self, growth: &self.growth, size }.to_string()
    }
}

/// Description of a prediction for people.
struct Explanation<'a> {
    prediction: &'a Prediction,
    growth: &'a Growth,
    /// The size whose peak is described.
    size: u32,
}

impl Explanation<'_> {
    fn peak(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prediction, growth, size } = self;
        let highest = growth.highest(prediction.place(), u64::from(*size), 1);
        let name = highest.operator.map_or("between operators", |id| &*growth.trace()[id].name);
        writeln!(f, "  peak of {size}: {} in {name}, held by", bytes_for_people(highest.bytes))?;
        for held in growth.holders(prediction.place(), u64::from(*size), highest.tick).iter().take(LARGEST) {
            let name = held.operator.map_or("no operator", |id| &*growth.trace()[id].name);
            writeln!(f, "    {:>12}  {name} ({})", bytes_for_people(held.bytes), text(held.line))?;
        }
        Ok(())
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prediction, growth, size } = self;
        let sizes: Vec<String> = prediction.sizes().map(|size| size.to_string()).collect();
        writeln!(f, "{}, from dry runs of {} items", prediction.device(), sizes.join(" and "))?;
        let [leaves, adds] = growth.leaves(prediction.place());
        writeln!(f, "  a piece takes {}", text(growth.line(prediction.place(), u64::from(*size))))?;
        writeln!(f, "  the first leaves {}, each further one {}", text(leaves), text(adds))?;
        self.peak(f)?;
        writeln!(f, "  {:>12}  bytes", "items")?;
        for size in SIZES {
            let bytes = growth.needs_bytes(prediction.place(), u64::from(size));
            writeln!(f, "  {size:>12}  {}", bytes_for_people(bytes))?;
        }
        for name in prediction.unknown() {
            writeln!(f, "  {name} depends on data: taken at 1, or at the most there can be")?;
        }
        if prediction.device() != "cpu" {
            writeln!(f, "  not included: workspaces of the device's kernels")?;
        }
        Ok(())
    }
}

/// `1.5 MiB + 2.0 KiB per item`.
fn text(line: Line) -> String {
    let part = |bytes: i128| {
        let sign = if bytes < 0 { "-" } else { "" };
        format!("{sign}{}", bytes_for_people(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX)))
    };
    format!("{} + {} per item", part(line.fixed), part(line.per_item))
}
