//! The table option × form: every option, in every form in which it has a meaning, has its effect.
//!
//! Each module is a row, one option: how it is written inline and in an attribute, and the effect
//! that every form must show. [`forms!`] makes the row's cells, one test per form, so that a test's
//! name is its place in the table: `min::range_i64_async`. [`table`] counts them.

#[macro_use]
mod forms;

mod before_retry;
mod cache_instance;
mod cache_type;
mod classify;
mod deadline;
mod device;
mod dim;
#[path = "../common/executor.rs"]
mod executor;
mod initial;
mod key;
mod ladder;
mod max;
mod max_attempts;
mod min;
mod multiple_of;
mod name;
mod observer;
mod policy;
mod predict;
mod ranks;
mod rehearsal;
mod table;
mod trial;
mod values;
