//! The objects that a program holds: manager, handles, parked devices, weight files.

pub(crate) mod file;
pub(crate) mod governor;
pub(crate) mod manager;
pub(crate) mod park;
pub(crate) mod save;
pub(crate) mod source;
pub(crate) mod status;
pub(crate) mod tensor_ref;
