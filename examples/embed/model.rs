//! The network: BERT with six small layers, then the mean over a text's tokens, normalized.
//!
//! Every operator is called by its `f_` name, which returns an error where the ordinary one panics. No gradients are
//! computed, because nothing here requires any.

use std::path::Path;

use tch::{Device, Kind, TchError, Tensor};

use toma::predict::is_dry;
use toma::torch::offload::Manager;

use crate::Result;
use crate::texts::Tokens;
use crate::weights::{Config, Weights};

type Torch<T> = std::result::Result<T, TchError>;

/// Token ids, batch × tokens; shorter texts are padded with 0, which is no word. It is one operator for any batch, so
/// that a dry run of a few texts represents many.
fn padded(texts: &[&Tokens]) -> Torch<Tensor> {
    let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
    let ids: Vec<i64> = texts
        .iter()
        .flat_map(|text| text.iter().copied().chain(std::iter::repeat_n(0, longest - text.len())))
        .collect();
    let size = |count: usize| i64::try_from(count).expect("extents of tensors fit in i64");
    Tensor::f_from_slice(&ids)?.f_view([size(texts.len()), size(longest)])
}

pub(crate) struct Model {
    config: Config,
    weights: Weights,
    device: Device,
}

impl Model {
    pub(crate) fn load(folder: &Path, device: Device) -> Result<Self> {
        Self::with(folder, device, Weights::read(&folder.join("model.safetensors"), device)?)
    }

    /// Loads a model that needs less memory than its weights, on a device whose manager this thread has entered.
    #[allow(dead_code, reason = "the example `profile` has all of it in memory")]
    pub(crate) fn offloaded(folder: &Path, device: Device, manager: &Manager) -> Result<Self> {
        Self::with(folder, device, Weights::in_file(&folder.join("model.safetensors"), manager)?)
    }

    fn with(folder: &Path, device: Device, weights: Weights) -> Result<Self> {
        let config = Config::read(&folder.join("config.json"))?;
        let model = Self { config, weights, device };
        // Fails early if a weight is missing, and pays for libtorch's one-time initialization.
        model.embed(&[&vec![1]])?;
        Ok(model)
    }

    /// Length of a vector.
    pub(crate) const fn width(&self) -> usize {
        self.config.hidden_size
    }

    /// Every weight by its name.
    #[allow(dead_code, reason = "the example `profile` names them")]
    pub(crate) fn weights(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.weights.all()
    }

    /// A vector of length 1 for each text, one after the other.
    ///
    /// Each text must have at least one token, and at most as many as there are positions.
    #[toma::profile]
    pub(crate) fn embed(&self, texts: &[&Tokens]) -> Torch<Vec<f32>> {
        let ids = padded(texts)?.f_to_device(self.device)?;
        let is_word = ids.f_ne(0)?.f_unsqueeze(1)?;
        // A dry run represents all batches, and padded ones need more memory.
        let is_padded = is_dry() || texts.iter().any(|text| text.len() != texts[0].len());
        let mask = is_padded.then(|| is_word.f_unsqueeze(1)).transpose()?;
        let hidden = self.encode(&ids, mask.as_ref())?;
        // Weight of each token in the mean, batch × 1 × tokens.
        let shares = is_word.f_div(&is_word.f_sum_dim_intlist(2_i64, true, Kind::Float)?)?;
        let mean = shares.f_bmm(&hidden)?.f_squeeze_dim(1)?;
        let length = mean.f_norm_scalaropt_dim(2.0, 1_i64, true)?.f_clamp_min(1e-12)?;
        Vec::try_from(mean.f_div(&length)?.f_flatten(0, -1)?.f_to_device(Device::Cpu)?)
    }

    /// The last hidden state, batch × tokens × hidden size. The mask, batch × 1 × 1 × tokens, marks the tokens that may
    /// be attended to, and is missing if all may be.
    #[toma::profile]
    fn encode(&self, ids: &Tensor, mask: Option<&Tensor>) -> Torch<Tensor> {
        let table = |name: &str| self.weights.get("embeddings", &format!("{name}_embeddings.weight"));
        let mut sum = Tensor::f_embedding(table("word")?, ids, -1, false, false)?;
        // A text may have two segments; lines only have the first.
        let segment = table("token_type")?.f_get(0)?;
        let place = table("position")?.f_narrow(0, 0, ids.size()[1])?.f_add(&segment)?;
        let mut hidden = self.norm("embeddings.LayerNorm", &sum.f_add_(&place)?)?;
        drop(sum);
        for layer in 0..self.config.num_hidden_layers {
            hidden = self.layer(&format!("encoder.layer.{layer}"), hidden, mask)?;
        }
        Ok(hidden)
    }

    #[toma::profile]
    fn layer(&self, layer: &str, hidden: Tensor, mask: Option<&Tensor>) -> Torch<Tensor> {
        let linear = |part: &str, input: &Tensor| self.linear(&format!("{layer}.{part}"), input);
        let norm = |part: &str, input: &Tensor| self.norm(&format!("{layer}.{part}.LayerNorm"), input);
        let mut attended = linear("attention.output.dense", &self.attend(layer, &hidden, mask)?)?;
        let attended = norm("attention.output", &attended.f_add_(&hidden)?)?;
        drop(hidden);
        let mut narrow = linear("output.dense", &linear("intermediate.dense", &attended)?.f_gelu_("none")?)?;
        norm("output", &narrow.f_add_(&attended)?)
    }

    #[toma::profile]
    fn attend(&self, layer: &str, hidden: &Tensor, mask: Option<&Tensor>) -> Torch<Tensor> {
        // From batch × tokens × hidden size to batch × heads × tokens × size of a head.
        let heads = |part: &str| {
            let all = self.linear(&format!("{layer}.attention.self.{part}"), hidden)?;
            all.f_unflatten(2, [self.config.num_attention_heads, -1])?.f_transpose(1, 2)
        };
        let (query, key, value) = (heads("query")?, heads("key")?, heads("value")?);
        let heads =
            Tensor::f_scaled_dot_product_attention(&query, &key, &value, mask, 0.0, false, None, false)?;
        heads.f_transpose(1, 2)?.f_flatten(2, 3)
    }

    fn linear(&self, name: &str, input: &Tensor) -> Torch<Tensor> {
        input.f_linear(self.weights.get(name, "weight")?, Some(self.weights.get(name, "bias")?))
    }

    fn norm(&self, name: &str, input: &Tensor) -> Torch<Tensor> {
        let (weight, bias) = (self.weights.get(name, "weight")?, self.weights.get(name, "bias")?);
        input.f_layer_norm(weight.size(), Some(weight), Some(bias), self.config.layer_norm_eps, true)
    }
}
