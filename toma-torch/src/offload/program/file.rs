//! Tensors whose bytes stay in a file until an operator uses them.

use std::path::Path;
use std::sync::Arc;

use tch::{Kind, Tensor};

use super::manager::Manager;
use super::tensor_ref::TensorRef;
use crate::error::Error;
use crate::ffi::{self, Aside, Use};
use crate::memory::Device;
use crate::offload::moves::evicted::{self, Source};
use crate::offload::moves::state::ManagerState;
use crate::offload::moves::table::Location;
use crate::offload::moves::weights_file::{Described, WeightsFile};

impl Manager {
    /// Returns the tensors of a safetensors file, by name and in the file's order, without reading them.
    ///
    /// Each tensor is read from the file when an operator uses it; an operator that gathers rows reads only these rows
    /// ([`Governor`](crate::offload::Governor)). A tensor that has not been written since is evicted without a copy, so
    /// weights take neither the device's memory nor the host's. Tensors with fewer bytes than the manager moves are
    /// read at once, and with `TOMA_DISABLE=1` all tensors are.
    ///
    /// `Tensor::set_data` gives the memory to a variable of a model: to those of a `VarStore` by their names in one loop,
    /// and to a layer by its fields, as in `layer.ws.set_data(tensor)`.
    ///
    /// ```
    /// use tch::{Kind, Tensor, nn};
    /// use toma_torch::Device;
    /// use toma_torch::offload::{Manager, Residency};
    ///
    /// let path = std::env::temp_dir().join(format!("weights-{}.safetensors", std::process::id()));
    /// let ones = Tensor::ones([1 << 18], (Kind::Float, tch::Device::Cpu));
    /// Tensor::write_safetensors(&[("ones", ones)], &path)?;
    ///
    /// let manager = Manager::new(&Device::new(tch::Device::Cpu));
    /// let _entered = manager.enter()?;
    /// let weights = manager.read_safetensors(&path)?;
    /// let (name, ones) = &weights[0];
    /// assert_eq!((name.as_str(), ones.residency()), ("ones", Residency::Offloaded));
    /// assert_eq!(ones.sum(Kind::Double).double_value(&[]), f64::from(1 << 18));
    ///
    /// let variables = nn::VarStore::new(tch::Device::Cpu);
    /// let weight = variables.root().zeros("ones", &[1 << 18]);
    /// let named = variables.variables();
    /// for (name, tensor) in &weights {
    ///     named[name].shallow_clone().set_data(tensor);
    /// }
    /// assert_eq!(weight.sum(Kind::Double).double_value(&[]), f64::from(1 << 18));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), tch::TchError>(())
    /// ```
    ///
    /// # Errors
    /// If `path` is not a safetensors file, libtorch lacks a kind, or the device does not exist. Later, when an
    /// operator uses a tensor: if the file has another length or was written to since, by its length and modification
    /// time. Replacing the file under its path has no effect.
    pub fn read_safetensors(&self, path: impl AsRef<Path>) -> Result<Vec<(String, TensorRef)>, Error> {
        Device::existing(self.shared().device.device())?;
        let described = WeightsFile::open(path.as_ref())?;
        let named = |one: Described| {
            let tensor = self.shared().tensor_of(&one)?;
            Ok((one.name.clone(), TensorRef::new(self.shared(), &tensor, Some(&one.name))))
        };
        described.into_iter().map(named).collect()
    }
}

impl ManagerState {
    fn tensor_of(self: &Arc<Self>, described: &Described) -> Result<Tensor, Error> {
        let kind = Kind::try_from(described.dtype)?;
        let shape = described.shape.iter().map(|&size| i64::try_from(size)).collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| described.refused("has more elements than libtorch counts"))?;
        let is_disabled = toma_core::private::is_disabled();
        if is_disabled || described.part.bytes < self.least_bytes() {
            let tensor = Tensor::f_from_data_size(&described.part.bytes()?, &shape, kind)?;
            return Ok(tensor.f_to_device(self.device.device())?);
        }
        let _aside = Aside::begin();
        let part = described.part.clone();
        let words = format!("{} ({} bytes)", described.name, part.bytes);
        let stand_in = Box::new(evicted::stand_in(part.bytes, Arc::new(Source::File(part)), &self.evicted));
        let words = evicted::evicted_message(&words, &self.device);
        let tensor = ffi::born_evicted(&shape, kind, self.device.device(), stand_in, &words)?;
        self.adopt_evicted(&tensor, &described.name);
        Ok(tensor)
    }

    /// Least bytes of a storage that may be evicted. Operators find these storages wherever they are.
    fn least_bytes(&self) -> u64 {
        self.min_bytes.load(std::sync::atomic::Ordering::Relaxed).max(1)
    }

    fn adopt_evicted(&self, tensor: &Tensor, name: &str) {
        let storage = Use::of(tensor).next().expect("a dense tensor has a storage");
        let mut table = self.table();
        let entry = table.entry(&storage).expect("an evicted storage may move");
        entry.location = Location::Evicted;
        entry.name = Some(Arc::from(name));
    }
}
