//! The environment variable that switches recording on without a change to the program.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::filled::{print_each, unreported, write_stderr};
use super::profiler::{Depth, Profiler, Profiling};
use super::recording::Recording;
use crate::error::{Error, ErrorKind};

const VARIABLE: &str = "TOMA_PROFILE";

/// Kind of recording that the variable requests.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    /// Tables on standard error when the program ends.
    Tables,
    /// Holders of memory, each time a loop or the program runs out of it.
    Filled,
    /// All files, in this folder.
    Files(PathBuf),
}

impl Wish {
    fn read(value: &OsStr) -> Result<Self, String> {
        let is_folder = value.to_string_lossy().contains(['/', '\\']);
        match value.to_str() {
            Some("" | "0") => Ok(Self::Nothing),
            Some("1") => Ok(Self::Tables),
            Some("oom") => Ok(Self::Filled),
            _ if is_folder => Ok(Self::Files(value.into())),
            _ => Err(format!(
                "toma: {VARIABLE}={}: must be 1, oom, 0, or a folder with a slash; taken for 0\n",
                value.display()
            )),
        }
    }
}

static RUNNING: Mutex<Option<(Wish, Profiling)>> = Mutex::new(None);

fn running() -> MutexGuard<'static, Option<(Wish, Profiling)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts recording before `main`, if the variable is set.
pub(crate) fn install() {
    let Some(value) = env::var_os(VARIABLE) else { return };
    let started = Wish::read(&value).and_then(|wish| start(wish).map_err(|error| format!("toma: {error}\n")));
    if let Err(problem) = started {
        write_stderr(&problem);
    }
}

fn start(wish: Wish) -> Result<(), Error> {
    let depth = match &wish {
        Wish::Nothing => return Ok(()),
        Wish::Files(folder) => {
            create(folder)?;
            Depth::Events
        }
        Wish::Tables | Wish::Filled => Depth::Lines,
    };
    let profiling = Profiler::new().depth(depth).start()?;
    print_each(wish == Wish::Filled);
    *running() = Some((wish, profiling));
    Ok(())
}

/// Creates the folder before the work begins, so that a failure to create it is reported early.
fn create(folder: &Path) -> Result<(), Error> {
    let problem = |error| format!("{VARIABLE}={}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(|error| Error::new(ErrorKind::Other, problem(error)))
}

/// Prints the recording when the program ends.
pub(crate) fn print() {
    let Some((wish, profiling)) = running().take() else { return };
    print_each(false);
    if let (Wish::Filled | Wish::Tables, Some(filled)) = (&wish, unreported()) {
        write_stderr(&format!("toma: {filled}"));
    }
    let recording = profiling.finish();
    match wish {
        Wish::Nothing | Wish::Filled => {}
        Wish::Tables => write_stderr(&format!("{}\n{}", recording.peak(), recording.lines())),
        Wish::Files(folder) => {
            if let Err(error) = write_all(&recording, &folder) {
                write_stderr(&format!("toma: {VARIABLE}: {error}\n"));
            }
        }
    }
}

fn write_all(recording: &Recording, folder: &Path) -> Result<(), Error> {
    recording.write_text(folder.join("profile.txt"))?;
    recording.write_html(folder.join("profile.html"))?;
    recording.write_memory_viz(folder.join("memory_viz.pickle"))?;
    recording.write_perfetto(folder.join("perfetto.json"))
}

/// Discards the recording of `TOMA_PROFILE` so far, as [`Profiling::clear`] does for a profiler's.
///
/// ```
/// use toma_torch::profile;
///
/// // ... a warm-up that the table of `TOMA_PROFILE=1` should not show ...
/// profile::clear();
/// ```
pub fn clear() {
    if let Some((_, profiling)) = &mut *running() {
        profiling.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_chooses_the_recording() {
        let read = |value: &str| Wish::read(OsStr::new(value));
        assert_eq!([read(""), read("0")], [Ok(Wish::Nothing), Ok(Wish::Nothing)]);
        assert_eq!([read("1"), read("oom")], [Ok(Wish::Tables), Ok(Wish::Filled)]);
        assert_eq!(read("out/"), Ok(Wish::Files("out/".into())));
        let problem = read("yes").unwrap_err();
        assert_eq!(
            problem,
            "toma: TOMA_PROFILE=yes: must be 1, oom, 0, or a folder with a slash; taken for 0\n"
        );
    }
}
