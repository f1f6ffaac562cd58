//! What hears the marks of all threads.

use std::io::{self, Write as _};

use super::thread::{Here, unless_paused};
use crate::marks::{Function, Marks};

/// Nothing is borrowed meanwhile, because it may look at tensors.
fn after_backward() {
    if let Some(Some(after)) = unless_paused(Here::ended_backward) {
        after();
    }
}

/// Hears the marks of all threads.
#[derive(Debug)]
pub(super) struct Ears;

impl Marks for Ears {
    fn enter(&self, function: &'static Function, line: u32) {
        unless_paused(|here| here.enter(function, line, line == 0));
    }

    fn resume(&self, function: &'static Function, line: u32) {
        unless_paused(|here| here.enter(function, line, false));
    }

    fn line(&self, function: &'static Function, line: u32) {
        after_backward();
        unless_paused(|here| here.mark(function, line));
    }

    fn left_block(&self, enclosing: u32) {
        unless_paused(|here| here.left_block(enclosing));
    }

    fn leave(&self) -> u32 {
        after_backward();
        let (line, table) = unless_paused(Here::leave).unwrap_or_default();
        if let Some(table) = table {
            // A standard error that is closed must not end the program.
            let _ = io::stderr().lock().write_all(table.as_bytes());
        }
        line
    }
}
