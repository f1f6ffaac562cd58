//! The network: BERT with six small layers, then the mean over a text's tokens, normalized.
//!
//! Every operator is called by its `f_` name, which returns an error where the ordinary one panics.
//! No gradients are made, because nothing here requires any.

use std::path::Path;

use tch::{Device, TchError, Tensor};

use crate::Result;
use crate::texts::Tokens;
use crate::weights::{Config, Weights};

type Torch<T> = std::result::Result<T, TchError>;

pub(crate) struct Model {
    words: Tensor,
    positions: Tensor,
    /// Of the first of the two segments a text may have; lines have one.
    segment: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
    device: Device,
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attention_norm: Norm,
    wide: Linear,
    narrow: Linear,
    output_norm: Norm,
    heads: i64,
}

struct Linear {
    weight: Tensor,
    bias: Tensor,
}

struct Norm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
}

/// Texts as the network takes them.
struct Batch {
    /// Word numbers, batch × tokens; shorter texts are filled up with 0.
    ids: Tensor,
    /// Which tokens may be attended to, batch × 1 × 1 × tokens; `None` where all may.
    mask: Option<Tensor>,
    /// What each token contributes to the mean, batch × 1 × tokens.
    shares: Tensor,
}

impl Model {
    pub(crate) fn load(folder: &Path, device: Device) -> Result<Self> {
        let config = Config::read(&folder.join("config.json"))?;
        let mut from = Weights::read(&folder.join("model.safetensors"), device)?;
        let mut table = |name: &str| from.take(&format!("embeddings.{name}_embeddings.weight"));
        let (words, positions, segment) =
            (table("word")?, table("position")?, table("token_type")?.f_get(0)?);
        let norm = Norm::take(&mut from, "embeddings.LayerNorm", &config)?;
        let layers = (0..config.num_hidden_layers).map(|index| Layer::take(&mut from, index, &config));
        let layers = layers.collect::<Result<_>>()?;
        Ok(Self { words, positions, segment, norm, layers, device })
    }

    /// Numbers in a vector.
    pub(crate) fn width(&self) -> usize {
        self.segment.numel()
    }

    /// A vector of length 1 for each text, one after the other.
    ///
    /// Each text must have a token, and at most as many as there are positions.
    pub(crate) fn embed(&self, texts: &[&Tokens]) -> Torch<Vec<f32>> {
        let batch = Batch::new(texts, self.device)?;
        let hidden = self.encode(&batch)?;
        let mean = batch.shares.f_bmm(&hidden)?.f_squeeze_dim(1)?;
        let length = mean.f_norm_scalaropt_dim(2.0, 1_i64, true)?.f_clamp_min(1e-12)?;
        Vec::try_from(mean.f_div(&length)?.f_flatten(0, -1)?.f_to_device(Device::Cpu)?)
    }

    /// The last hidden state, batch × tokens × hidden size.
    fn encode(&self, batch: &Batch) -> Torch<Tensor> {
        let tokens = batch.ids.size()[1];
        let mut sum = Tensor::f_embedding(&self.words, &batch.ids, -1, false, false)?;
        let place = self.positions.f_narrow(0, 0, tokens)?.f_add(&self.segment)?;
        let mut hidden = self.norm.forward(&sum.f_add_(&place)?)?;
        drop(sum);
        for layer in &self.layers {
            hidden = layer.forward(hidden, batch.mask.as_ref())?;
        }
        Ok(hidden)
    }
}

impl Batch {
    fn new(texts: &[&Tokens], device: Device) -> Torch<Self> {
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let mut ids = Vec::with_capacity(texts.len() * longest);
        let mut mask = Vec::with_capacity(ids.capacity());
        let mut shares = Vec::with_capacity(ids.capacity());
        for text in texts {
            let share = 1.0 / f32::from(u16::try_from(text.len()).expect("texts have at most 256 tokens"));
            for at in 0..longest {
                ids.push(text.get(at).map_or(0, |&id| i64::from(id)));
                mask.push(at < text.len());
                shares.push(if at < text.len() { share } else { 0.0_f32 });
            }
        }
        let [batch, tokens] =
            [texts.len(), longest].map(|size| i64::try_from(size).expect("sizes fit in i64"));
        let place = |tensor: Tensor, shape: &[i64]| tensor.f_view(shape)?.f_to_device(device);
        let padded = mask.contains(&false).then(|| Tensor::f_from_slice(&mask)).transpose()?;
        Ok(Self {
            ids: place(Tensor::f_from_slice(&ids)?, &[batch, tokens])?,
            mask: padded.map(|mask| place(mask, &[batch, 1, 1, tokens])).transpose()?,
            shares: place(Tensor::f_from_slice(&shares)?, &[batch, 1, tokens])?,
        })
    }
}

impl Layer {
    fn take(from: &mut Weights, index: usize, config: &Config) -> Result<Self> {
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let mut linear = |part: &str| Linear::take(from, &name(part));
        let query = linear("attention.self.query")?;
        let key = linear("attention.self.key")?;
        let value = linear("attention.self.value")?;
        let attended = linear("attention.output.dense")?;
        let wide = linear("intermediate.dense")?;
        let narrow = linear("output.dense")?;
        let attention_norm = Norm::take(from, &name("attention.output.LayerNorm"), config)?;
        let output_norm = Norm::take(from, &name("output.LayerNorm"), config)?;
        let heads = config.num_attention_heads;
        Ok(Self { query, key, value, attended, attention_norm, wide, narrow, output_norm, heads })
    }

    fn forward(&self, hidden: Tensor, mask: Option<&Tensor>) -> Torch<Tensor> {
        let mut attended = self.attended.forward(&self.attend(&hidden, mask)?)?;
        let attended = self.attention_norm.forward(&attended.f_add_(&hidden)?)?;
        drop(hidden);
        let mut narrow = self.narrow.forward(&self.wide.forward(&attended)?.f_gelu_("none")?)?;
        self.output_norm.forward(&narrow.f_add_(&attended)?)
    }

    fn attend(&self, hidden: &Tensor, mask: Option<&Tensor>) -> Torch<Tensor> {
        let (query, key, value) =
            (self.query.forward(hidden)?, self.key.forward(hidden)?, self.value.forward(hidden)?);
        let [query, key, value] = [self.split(&query)?, self.split(&key)?, self.split(&value)?];
        let heads =
            Tensor::f_scaled_dot_product_attention(&query, &key, &value, mask, 0.0, false, None, false)?;
        heads.f_transpose(1, 2)?.f_flatten(2, 3)
    }

    /// From batch × tokens × hidden size to batch × heads × tokens × size of a head.
    fn split(&self, hidden: &Tensor) -> Torch<Tensor> {
        hidden.f_unflatten(2, [self.heads, -1])?.f_transpose(1, 2)
    }
}

impl Linear {
    fn take(from: &mut Weights, name: &str) -> Result<Self> {
        let weight = from.take(&format!("{name}.weight"))?;
        Ok(Self { weight, bias: from.take(&format!("{name}.bias"))? })
    }

    fn forward(&self, input: &Tensor) -> Torch<Tensor> {
        input.f_linear(&self.weight, Some(&self.bias))
    }
}

impl Norm {
    fn take(from: &mut Weights, name: &str, config: &Config) -> Result<Self> {
        let Linear { weight, bias } = Linear::take(from, name)?;
        Ok(Self { weight, bias, eps: config.layer_norm_eps })
    }

    fn forward(&self, input: &Tensor) -> Torch<Tensor> {
        let shape = self.weight.size();
        input.f_layer_norm(shape, Some(&self.weight), Some(&self.bias), self.eps, true)
    }
}
