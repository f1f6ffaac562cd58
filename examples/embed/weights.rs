//! The weights of the model, each taken by name and checked for its shape.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tch::{Device, Kind, Tensor};

use crate::{Result, first_line};

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
    pub(crate) fn take(&mut self, name: &str, shape: &[i64]) -> Result<Tensor> {
        let path = self.path.display();
        let tensor =
            self.tensors.remove(name).ok_or_else(|| format!("{path}: tensor `{name}` is missing"))?;
        if tensor.size() != shape {
            let size = tensor.size();
            return Err(
                format!("{path}: tensor `{name}` has shape {size:?}, config.json says {shape:?}").into()
            );
        }
        let kind = tensor.kind();
        if kind != Kind::Float {
            return Err(format!("{path}: tensor `{name}` is of {kind:?}, must be of Float").into());
        }
        Ok(tensor.f_to_device(self.device)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{alone, scratch};
    use std::fs;

    fn floats(shape: &[i64]) -> Tensor {
        Tensor::zeros(shape, (Kind::Float, Device::Cpu))
    }

    #[test]
    fn what_is_missing_or_of_another_shape_or_kind_is_named() {
        let _alone = alone();
        let scratch = scratch();
        let path = scratch.path().join("foreign.safetensors");
        let doubles = floats(&[4]).to_kind(Kind::Double);
        Tensor::write_safetensors(&[("a", floats(&[2, 3])), ("b", doubles)], &path).unwrap();
        let mut weights = Weights::read(&path, Device::Cpu).unwrap();
        let message = |result: Result<Tensor>| result.unwrap_err().to_string();
        assert!(message(weights.take("c", &[1])).ends_with("tensor `c` is missing"));
        assert!(message(weights.take("b", &[4])).ends_with("tensor `b` is of Double, must be of Float"));
        let other = message(weights.take("a", &[3, 2]));
        assert!(other.ends_with("tensor `a` has shape [2, 3], config.json says [3, 2]"), "{other}");
    }

    #[test]
    fn a_broken_file_is_named() {
        let _alone = alone();
        let scratch = scratch();
        let path = scratch.path().join("broken.safetensors");
        for content in [&b""[..], b"short", b"\xff\xff\xff\xff\xff\xff\xff\xff{}", b"\x02\0\0\0\0\0\0\0[]"] {
            fs::write(&path, content).unwrap();
            let error = Weights::read(&path, Device::Cpu).err().unwrap().to_string();
            assert!(error.contains("broken.safetensors: not readable"), "{error}");
        }
    }
}
