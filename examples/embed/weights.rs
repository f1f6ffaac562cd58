//! The files of the model: its description, and its weights by name.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use tch::{Device, Kind, TchError, Tensor};
use toma::torch::offload::{Manager, TensorRef};

use crate::{Result, first_line};

/// Values of config.json that the weights do not show.
#[derive(Debug, Deserialize)]
pub(crate) struct Config {
    model_type: String,
    hidden_act: String,
    position_embedding_type: Option<String>,
    pub(crate) hidden_size: usize,
    pub(crate) num_attention_heads: i64,
    pub(crate) num_hidden_layers: usize,
    pub(crate) layer_norm_eps: f64,
}

impl Config {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let config = fs::read_to_string(path).map_err(Into::into).and_then(|text| Self::parse(&text));
        config.map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// Refuses another architecture, which would load in part and compute nonsense.
    fn parse(text: &str) -> Result<Self> {
        let config: Self = serde_json::from_str(text)?;
        let position = config.position_embedding_type.as_deref().unwrap_or("absolute");
        let words = [
            ("model_type", &*config.model_type, "bert"),
            ("hidden_act", &*config.hidden_act, "gelu"),
            ("position_embedding_type", position, "absolute"),
        ];
        for (name, value, right) in words {
            if value != right {
                return Err(format!("{name} {value:?}: only {right:?} is implemented").into());
            }
        }
        Ok(config)
    }
}

/// The tensors of a safetensors file, by name.
#[derive(Debug)]
pub(crate) struct Weights(HashMap<String, Tensor>);

impl Weights {
    pub(crate) fn read(path: &Path, device: Device) -> Result<Self> {
        let mut tensors = Tensor::read_safetensors(path).map_err(|error| {
            format!("{}: not readable as safetensors: {}", path.display(), first_line(&error))
        })?;
        // Only used by networks that classify.
        tensors.retain(|(name, _)| !name.starts_with("pooler."));
        let place = |(name, tensor): (String, Tensor)| {
            Ok((name, tensor.f_to_device(device)?.f_to_kind(Kind::Float)?))
        };
        Ok(Self(tensors.into_iter().map(place).collect::<Result<_>>()?))
    }

    /// Reads the weights so that they stay in the file until an operator uses them.
    #[allow(dead_code, reason = "the example `profile` has all of them in memory")]
    pub(crate) fn in_file(path: &Path, manager: &Manager) -> Result<Self> {
        let tensors = manager.read_safetensors(path)?.into_iter();
        let tensors = tensors.filter(|(name, _)| !name.starts_with("pooler."));
        let place = |(name, tensor): (String, TensorRef)| match tensor.kind() {
            Kind::Float => Ok((name, tensor.shallow_clone())),
            _ => Ok((name, tensor.f_to_kind(Kind::Float)?)),
        };
        Ok(Self(tensors.map(place).collect::<Result<_>>()?))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, weight)| (name.as_str(), weight))
    }

    pub(crate) fn get(&self, of: &str, part: &str) -> std::result::Result<&Tensor, TchError> {
        let missing = || TchError::FileFormat(format!("model.safetensors: tensor `{of}.{part}` is missing"));
        self.0.get(&format!("{of}.{part}")).ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{alone, scratch};

    const RIGHT: &str = r#"{"model_type": "bert", "hidden_act": "gelu", "hidden_size": 4, "num_attention_heads": 2,
        "num_hidden_layers": 1, "layer_norm_eps": 1e-12, "use_cache": true}"#;

    #[test]
    fn another_model_is_refused_by_name_and_value() {
        assert_eq!(Config::parse(RIGHT).unwrap().num_attention_heads, 2);
        let cases = [
            ("\"bert\"", "\"roberta\"", "model_type \"roberta\": only \"bert\" is implemented"),
            ("\"gelu\"", "\"gelu_new\"", "hidden_act \"gelu_new\": only \"gelu\" is implemented"),
            (
                "{",
                "{\"position_embedding_type\": \"relative_key\",",
                "position_embedding_type \"relative_key\"",
            ),
            ("\"num_hidden_layers\"", "\"layers\"", "missing field `num_hidden_layers`"),
            ("\"num_hidden_layers\": 1", "\"num_hidden_layers\": -1", "invalid value: integer `-1`"),
        ];
        for (part, other, text) in cases {
            let error = Config::parse(&RIGHT.replacen(part, other, 1)).unwrap_err().to_string();
            assert!(error.contains(text), "{other}: {error}");
        }
    }

    #[test]
    fn a_missing_tensor_and_a_broken_file_are_named() {
        let _alone = alone();
        let scratch = scratch();
        let path = scratch.path().join("some.safetensors");
        let doubles = Tensor::ones([4], (Kind::Double, Device::Cpu));
        Tensor::write_safetensors(&[("a.weight", doubles)], &path).unwrap();
        let weights = Weights::read(&path, Device::Cpu).unwrap();
        let error = weights.get("a", "bias").unwrap_err().to_string();
        assert!(error.ends_with("tensor `a.bias` is missing"), "{error}");
        assert_eq!(weights.get("a", "weight").unwrap(), &Tensor::ones([4], (Kind::Float, Device::Cpu)));
        for content in [&b""[..], b"short", b"\xff\xff\xff\xff\xff\xff\xff\xff{}", b"\x02\0\0\0\0\0\0\0[]"] {
            fs::write(&path, content).unwrap();
            let error = Weights::read(&path, Device::Cpu).err().unwrap().to_string();
            assert!(error.contains("some.safetensors: not readable"), "{error}");
        }
    }
}
