//! Where a file is to be written in the end.

use std::error::Error;
use std::path::Path;

/// Says before the work that the file of an option has no place: there is no folder for it, or a folder has its name.
pub(crate) fn check(option: &str, path: &Path) -> Result<(), Box<dyn Error>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
    let wrong = match folder {
        Some(folder) => format!("there is no folder {}", folder.display()),
        None if path.is_dir() => "is a folder".to_owned(),
        None => return Ok(()),
    };
    Err(format!("{option} {}: {wrong}", path.display()).into())
}
