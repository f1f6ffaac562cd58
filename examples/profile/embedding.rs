//! The model of the example `embed` turns lines of text into vectors.

use std::cmp::Reverse;
use std::path::Path;

use tch::{Device, TchError};
use toma::observe::Observer;
use toma::torch::profile::{Profiler, Stocktaking, inventory};
use toma::{GlobalCache, execute};

use crate::Result;
use crate::model::Model;
use crate::show::Work;
use crate::texts::{LINES, Tokens, Words};

pub(crate) struct Embedding {
    model: Model,
    texts: Vec<Tokens>,
    device: toma::torch::Device,
    /// The size that worked, which the next run starts with.
    sizes: GlobalCache,
}

impl Embedding {
    /// Uses this number of the longest lines.
    pub(crate) fn new(folder: &Path, lines: usize) -> Result<Self> {
        let words = Words::read(&folder.join("tokenizer.json"))?;
        let model = Model::load(folder, Device::Cpu)?;
        let mut texts = words.tokens(&LINES.lines().collect::<Vec<_>>())?;
        texts.sort_by_key(|text| Reverse(text.len()));
        texts.truncate(lines);
        let device = toma::torch::Device::new(Device::Cpu);
        Ok(Self { model, texts, device, sizes: GlobalCache::new() })
    }
}

impl Work for Embedding {
    fn about(&self) -> String {
        format!("MiniLM embeds the {} longest lines of the guide", self.texts.len())
    }

    fn items(&self) -> &'static str {
        "lines"
    }

    fn profiler(&self) -> Profiler {
        let weights = self.model.weights();
        weights.fold(Profiler::new(), |profiler, (name, weight)| profiler.label(part(name), weight))
    }

    #[toma::profile]
    fn run(&mut self, observer: &dyn Observer) -> Result<()> {
        let form = execute::with::<GlobalCache>().cache(&self.sizes).device(&self.device);
        let form = form.observer(observer).name("embed");
        let lines = self.texts.len();
        let embedded: Result<(), TchError> = form.range(0..lines, lines, |start, end| {
            let texts: Vec<_> = self.texts[start..end].iter().collect();
            self.model.embed(&texts).map(drop)
        });
        Ok(embedded?)
    }

    fn inventory(&self) -> Stocktaking {
        inventory()
    }
}

/// The layer of a weight, such as `encoder.layer.3`, because seven names are easier to read than a hundred.
fn part(name: &str) -> &str {
    let parts = if name.starts_with("encoder.") { 3 } else { 1 };
    name.match_indices('.').nth(parts - 1).map_or(name, |(end, _)| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_belongs_to_its_layer() {
        let names = ["encoder.layer.3.output.dense.weight", "embeddings.LayerNorm.bias", "position_ids"];
        assert_eq!(names.map(part), ["encoder.layer.3", "embeddings", "position_ids"]);
    }
}
