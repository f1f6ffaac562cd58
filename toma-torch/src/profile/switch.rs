//! The variable that switches recording on without a word in the program.

use std::env;
use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use super::profiler::{Profiler, Profiling};

const VARIABLE: &str = "TOMA_PROFILE";

static RUNNING: Mutex<Option<Profiling>> = Mutex::new(None);

/// Begins before `main`, where the variable says so.
pub(crate) fn install() {
    match env::var_os(VARIABLE) {
        Some(value) if value == "1" => {}
        None => return,
        Some(value) if value.is_empty() || value == "0" => return,
        Some(value) => {
            return say(&format!("toma: {VARIABLE}={}: must be 1 or 0; taken for 0\n", value.display()));
        }
    }
    match Profiler::new().start() {
        Ok(profiling) => *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(profiling),
        Err(error) => say(&format!("toma: {error}\n")),
    }
}

/// Prints what was recorded, as the program ends.
pub(crate) fn print() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(profiling) = running {
        say(&profiling.finish().lines().to_string());
    }
}

/// A standard error that is closed must not end the program.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
