//! The files of the model: its description, and its weights by name.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use crate::{Result, first_line};

/// What config.json says that the weights do not show.
#[derive(Debug, Deserialize)]
pub(crate) struct Config {
    model_type: String,
    hidden_act: String,
    position_embedding_type: Option<String>,
    pub(crate) num_attention_heads: i64,
    pub(crate) num_hidden_layers: usize,
    pub(crate) layer_norm_eps: f64,
}

impl Config {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let say = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| say(&error))?;
        Ok(Self::parse(&text).map_err(|error| say(&error))?)
    }

    /// Another architecture would load in part and compute nonsense.
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

/// The tensors of a safetensors file.
pub(crate) struct Weights {
    tensors: HashMap<String, Tensor>,
    path: PathBuf,
    device: Device,
}

impl Weights {
    pub(crate) fn read(path: &Path, device: Device) -> Result<Self> {
        let tensors = Tensor::read_safetensors(path).map_err(|error| {
            format!("{}: not readable as safetensors: {}", path.display(), first_line(&error))
        })?;
        Ok(Self { tensors: tensors.into_iter().collect(), path: path.to_owned(), device })
    }

    /// Takes a tensor out, so that what the model does not use is freed with the rest.
    pub(crate) fn take(&mut self, name: &str) -> Result<Tensor> {
        let missing = || format!("{}: tensor `{name}` is missing", self.path.display());
        let tensor = self.tensors.remove(name).ok_or_else(missing)?;
        Ok(tensor.f_to_device(self.device)?.f_to_kind(Kind::Float)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{alone, scratch};

    const RIGHT: &str = r#"{"model_type": "bert", "hidden_act": "gelu", "num_attention_heads": 2,
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
        for (part, other, says) in cases {
            let error = Config::parse(&RIGHT.replacen(part, other, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{other}: {error}");
        }
    }

    #[test]
    fn a_missing_tensor_and_a_broken_file_are_named() {
        let _alone = alone();
        let scratch = scratch();
        let path = scratch.path().join("some.safetensors");
        let doubles = Tensor::ones([4], (Kind::Double, Device::Cpu));
        Tensor::write_safetensors(&[("a", doubles)], &path).unwrap();
        let mut weights = Weights::read(&path, Device::Cpu).unwrap();
        assert!(
            weights.take("b").unwrap_err().to_string().ends_with("some.safetensors: tensor `b` is missing")
        );
        assert_eq!(weights.take("a").unwrap(), Tensor::ones([4], (Kind::Float, Device::Cpu)));
        for content in [&b""[..], b"short", b"\xff\xff\xff\xff\xff\xff\xff\xff{}", b"\x02\0\0\0\0\0\0\0[]"] {
            fs::write(&path, content).unwrap();
            let error = Weights::read(&path, Device::Cpu).err().unwrap().to_string();
            assert!(error.contains("some.safetensors: not readable"), "{error}");
        }
    }
}
