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
    config: Config,
    weights: Weights,
    device: Device,
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
        let weights = Weights::read(&folder.join("model.safetensors"), device)?;
        let model = Self { config, weights, device };
        // Names every weight that is missing, and pays for what libtorch does only once.
        model.embed(&[&vec![0]])?;
        Ok(model)
    }

    /// Numbers in a vector.
    pub(crate) const fn width(&self) -> usize {
        self.config.hidden_size
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
        let table = |name| self.weights.get("embeddings", name);
        let tokens = batch.ids.size()[1];
        let words = table("word_embeddings.weight")?;
        let mut sum = Tensor::f_embedding(words, &batch.ids, -1, false, false)?;
        // Of the two segments that a text may have, lines have the first.
        let segment = table("token_type_embeddings.weight")?.f_get(0)?;
        let place = table("position_embeddings.weight")?.f_narrow(0, 0, tokens)?.f_add(&segment)?;
        let mut hidden = self.norm("embeddings.LayerNorm", &sum.f_add_(&place)?)?;
        drop(sum);
        for layer in 0..self.config.num_hidden_layers {
            hidden = self.layer(&format!("encoder.layer.{layer}"), hidden, batch.mask.as_ref())?;
        }
        Ok(hidden)
    }

    fn layer(&self, layer: &str, hidden: Tensor, mask: Option<&Tensor>) -> Torch<Tensor> {
        let linear = |part: &str, input: &Tensor| self.linear(&format!("{layer}.{part}"), input);
        let norm = |part: &str, input: &Tensor| self.norm(&format!("{layer}.{part}.LayerNorm"), input);
        let mut attended = linear("attention.output.dense", &self.attend(layer, &hidden, mask)?)?;
        let attended = norm("attention.output", &attended.f_add_(&hidden)?)?;
        drop(hidden);
        let mut narrow = linear("output.dense", &linear("intermediate.dense", &attended)?.f_gelu_("none")?)?;
        norm("output", &narrow.f_add_(&attended)?)
    }

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
