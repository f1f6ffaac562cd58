//! Named tensors and their memory.

use std::collections::HashSet;

use tch::{TchError, Tensor};
use toma_trace::Place;

use crate::error::{Error, ErrorKind};
use crate::ffi::{self, TensorMemory};
use crate::offload;

/// Priority of a name: a storage is named after its tensor with the lowest rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Variable,
    Gradient,
    Other,
}

/// A named tensor with elements.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) rank: Rank,
    pub(super) name: String,
    pub(super) gradient_of: Option<String>,
    pub(super) shape: Vec<u64>,
    pub(super) place: Place,
    pub(super) memory: TensorMemory,
    /// Bytes of its storage that a manager has evicted from the device.
    pub(super) outside_bytes: u64,
    /// Keeps the storage alive, which may move.
    pub(super) tensor: Tensor,
}

impl Seen {
    pub(super) fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Reads the current memory of its storage, which may have moved.
    pub(super) fn look_again(&mut self) {
        self.memory = ffi::tensor_memory(&self.tensor).unwrap_or(self.memory);
        self.outside_bytes = offload::evicted_bytes(&self.tensor);
    }
}

/// Tensors looked at so far, each once.
#[derive(Debug, Default)]
pub(super) struct Look {
    seen: Vec<Seen>,
    names: HashSet<String>,
    tensors: HashSet<usize>,
}

/// The parts of a sparse tensor. The numbers are those of `c10::Layout`.
fn parts(layout: i32, tensor: &Tensor) -> Result<Vec<(&'static str, Tensor)>, TchError> {
    let compressed =
        |[one, other]: [(&'static str, Tensor); 2]| Ok(vec![one, other, ("values", tensor.f_values()?)]);
    match layout {
        1 => Ok(vec![("indices", tensor.f_internal_indices()?), ("values", tensor.f_internal_values()?)]),
        2 | 5 => {
            compressed([("crow_indices", tensor.f_crow_indices()?), ("col_indices", tensor.f_col_indices()?)])
        }
        4 | 6 => {
            compressed([("ccol_indices", tensor.f_ccol_indices()?), ("row_indices", tensor.f_row_indices()?)])
        }
        _ => Ok(Vec::new()),
    }
}

impl Look {
    /// Looks at a tensor and its gradient.
    pub(super) fn at(&mut self, rank: Rank, name: &str, tensor: &Tensor) -> Result<(), Error> {
        if !self.tensors.insert(ffi::identity(tensor)) {
            return Ok(());
        }
        let name = self.unique(name);
        self.look(tensor, &NameOf { rank, name: &name, gradient_of: None })?;
        // Reading `grad` of a tensor that is no leaf makes libtorch warn.
        let gradient = if tensor.is_leaf() { tensor.grad() } else { Tensor::new() };
        if gradient.defined() && self.tensors.insert(ffi::identity(&gradient)) {
            let of = Some(&*name);
            let name = self.unique(&format!("{name}.grad"));
            self.look(&gradient, &NameOf { rank: Rank::Gradient, name: &name, gradient_of: of })?;
        }
        Ok(())
    }

    pub(super) fn seen(self) -> Vec<Seen> {
        self.seen
    }

    fn unique(&mut self, name: &str) -> String {
        let numbered = (2..).map(|number: u32| format!("{name}#{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let unique = names.find(|name| !self.names.contains(name)).expect("there is always another");
        self.names.insert(unique.clone());
        unique
    }

    fn look(&mut self, tensor: &Tensor, named: &NameOf<'_>) -> Result<(), Error> {
        let memory = ffi::tensor_memory(tensor).map_err(|error| named.failed(&error))?;
        if memory.storage != 0 {
            self.seen.extend(named.seen(tensor, memory));
            return Ok(());
        }
        let parts = parts(memory.layout, tensor).map_err(|error| named.failed(&error.into()))?;
        if parts.is_empty() {
            let words = "has no storage, as of oneDNN's own layout; make it dense first";
            return Err(named.failed(&Error::new(ErrorKind::Unsupported, words.to_owned())));
        }
        for (part, tensor) in parts {
            let name = format!("{}.{part}", named.name);
            self.look(&tensor, &NameOf { name: &name, ..*named })?;
        }
        Ok(())
    }
}

pub(super) fn of_inventory(error: &Error) -> Error {
    Error::new(error.kind(), format!("inventory: {error}"))
}

/// Name and rank of a tensor.
#[derive(Clone, Copy)]
struct NameOf<'a> {
    rank: Rank,
    name: &'a str,
    gradient_of: Option<&'a str>,
}

impl NameOf<'_> {
    fn failed(&self, error: &Error) -> Error {
        of_inventory(&Error::new(error.kind(), format!("tensor {:?}: {error}", self.name)))
    }

    /// `None` for a tensor without elements.
    fn seen(&self, tensor: &Tensor, memory: TensorMemory) -> Option<Seen> {
        let shape: Vec<u64> = tensor.size().iter().map(|size| size.unsigned_abs()).collect();
        let seen = Seen {
            rank: self.rank,
            name: self.name.to_owned(),
            gradient_of: self.gradient_of.map(str::to_owned),
            shape,
            place: memory.device.place(),
            memory,
            outside_bytes: 0,
            tensor: tensor.shallow_clone(),
        };
        Some(seen).filter(|seen| seen.elements() > 0)
    }
}
