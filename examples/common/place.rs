//! Checks the path of an output file.

use std::error::Error;
use std::path::Path;

/// Fails before the work if the file of an option cannot be written: its folder is missing, or a folder has its name.
pub(crate) fn check(option: &str, path: &Path) -> Result<(), Box<dyn Error>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
    let wrong = match folder {
        Some(folder) => format!("there is no folder {}", folder.display()),
        None if path.is_dir() => "is a folder".to_owned(),
        None => return Ok(()),
    };
    Err(format!("{option} {}: {wrong}", path.display()).into())
}
