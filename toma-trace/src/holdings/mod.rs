//! What holds memory: what each storage is for, what it is called, and what filled a device.
//!
//! [`Names`] are what a program says of its storages. A [`Catalog`] gives every storage of a trace a [`Category`] and
//! a name. [`Holdings`] are those that are alive at one moment, an [`Inventory`] lists them one by one.

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
pub use names::{Catalog, Names};
