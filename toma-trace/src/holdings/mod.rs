//! Holders of memory: the use and the name of each storage, and the storages that fill a device.
//!
//! [`Names`] are given by a program to its storages. A [`Catalog`] gives every storage of a trace a [`Category`] and a
//! name. [`Holdings`] are the storages alive at one moment; an [`Inventory`] lists them one by one.

mod category;
mod filled;
mod inventory;
mod item;
mod listed;
mod names;
mod phases;

pub use category::Category;
pub use filled::{Holding, Holdings};
pub use inventory::Inventory;
pub use item::{Alias, Item};
pub(crate) use names::birth_name;
pub use names::{Catalog, Names};
