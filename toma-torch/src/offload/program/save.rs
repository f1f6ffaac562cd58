//! Writes variables to a file from wherever their bytes are.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::Path;

use safetensors::View;
use safetensors::tensor::Dtype;
use tch::Tensor;
use tch::nn::VarStore;

use super::manager::Manager;
use crate::error::Error;
use crate::offload::moves::weights_file;
use crate::tensor::packed_bytes;

impl Manager {
    /// Writes the variables to a safetensors file, one at a time, from wherever their bytes are. An evicted variable is
    /// fetched only if it is a view, or its elements are not in order.
    ///
    /// `VarStore::save` reads memory by its address, so it panics or fails for bytes that are only in a [weights
    /// file](Self::read_safetensors). This function writes these, too.
    ///
    /// `VarStore::load` and [`read_safetensors`](Self::read_safetensors) read the file. It replaces an existing file
    /// only when it is complete, so it may replace a file from which tensors of this manager are read.
    ///
    /// # Errors
    /// If the file cannot be written, or a variable cannot be read or has a kind that the format lacks. An existing
    /// file is then as it was.
    pub fn save(&self, variables: &VarStore, path: impl AsRef<Path>) -> Result<(), Error> {
        let failed = RefCell::new(None);
        let variables = variables.variables();
        let view = |(name, tensor): (&String, &Tensor)| {
            Variable::new(self, tensor, &failed).map(|view| (name.clone(), view))
        };
        let views = variables.iter().map(view).collect::<Result<_, Error>>()?;
        weights_file::write_whole(path.as_ref(), |partial| {
            let written = weights_file::write(partial, views);
            failed.take().map_or(written, Err)
        })
    }

    /// Returns the bytes of a tensor's elements in order.
    fn elements(&self, tensor: &Tensor) -> Result<Vec<u8>, Error> {
        let watched = self.adopt(tensor);
        let bytes = packed_bytes(tensor);
        let mut elements = vec![0; bytes];
        if tensor.is_contiguous() && watched.has_one_memory() && watched.bytes() == bytes as u64 {
            watched.read(&mut elements)?;
            return Ok(elements);
        }
        // A view, or a tensor whose elements are in another order.
        let _here = watched.pin()?;
        tensor.f_detach()?.f_copy_data_u8(&mut elements, tensor.numel())?;
        Ok(elements)
    }
}

/// A variable whose bytes are read when it is written.
struct Variable<'a> {
    manager: &'a Manager,
    tensor: Tensor,
    dtype: Dtype,
    shape: Vec<usize>,
    /// The first failure, kept here because the trait's methods return no errors.
    failed: &'a RefCell<Option<Error>>,
}

impl<'a> Variable<'a> {
    fn new(manager: &'a Manager, tensor: &Tensor, failed: &'a RefCell<Option<Error>>) -> Result<Self, Error> {
        let natural = |size: i64| usize::try_from(size).expect("sizes of tensors are natural numbers");
        let shape = tensor.size().into_iter().map(natural).collect();
        Ok(Self { manager, tensor: tensor.shallow_clone(), dtype: tensor.kind().try_into()?, shape, failed })
    }
}

impl View for Variable<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        if self.failed.borrow().is_some() {
            return Cow::Borrowed(&[]);
        }
        self.manager.elements(&self.tensor).map_or_else(
            |error| {
                *self.failed.borrow_mut() = Some(error);
                Cow::Borrowed(&[][..])
            },
            Cow::Owned,
        )
    }

    fn data_len(&self) -> usize {
        packed_bytes(&self.tensor)
    }
}
