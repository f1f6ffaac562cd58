//! The output file, written when all rows are complete.

use std::fs;
use std::path::Path;

use tch::Tensor;

use crate::{Result, place};

/// Fails before the work if the file could not be written after it.
pub(crate) fn check(path: &Path) -> Result<()> {
    place::check("output", path)?;
    match suffix(path) {
        Some("npy" | "safetensors") => Ok(()),
        _ => Err(format!("output {}: must end in .npy or .safetensors", path.display()).into()),
    }
}

/// Writes the rows in the format of the file's suffix; the file gets its name when it is complete.
///
/// The budget does not cover this, which takes a tensor of all rows.
pub(crate) fn write(path: &Path, rows: &[f32], width: usize) -> Result<()> {
    let rows = Tensor::f_from_slice(rows)?.f_view([-1, i64::try_from(width)?])?;
    // With the process's id, so that concurrent runs do not share the file.
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let written = match suffix(path) {
        Some("npy") => rows.write_npy(&part),
        _ => Tensor::write_safetensors(&[("embeddings", rows)], &part),
    };
    let named = written.map_err(Into::into).and_then(|()| Ok(fs::rename(&part, path)?));
    named.map_err(|error: Box<dyn std::error::Error>| {
        let _ = fs::remove_file(&part);
        format!("output {}: {error}", path.display()).into()
    })
}

fn suffix(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{alone, scratch};

    #[test]
    fn both_formats_are_read_back_and_replace_an_old_file() {
        let (_alone, scratch) = (alone(), scratch());
        for (rows, count) in [(&[][..], 0), (&[1.0, 2.0, 3.0, 4.0, 5.0, -0.5], 3)] {
            let right = Tensor::from_slice::<f32>(rows).view([count, 2]);
            let [npy, safetensors] = ["a.npy", "a.safetensors"].map(|name| scratch.path().join(name));
            for path in [&npy, &safetensors] {
                fs::write(path, "old").unwrap();
                check(path).unwrap();
                assert_eq!(fs::read_to_string(path).unwrap(), "old");
                write(path, rows, 2).unwrap();
            }
            assert_eq!(Tensor::read_npy(&npy).unwrap(), right);
            let read = Tensor::read_safetensors(&safetensors).unwrap();
            assert_eq!((read.len(), &*read[0].0, &read[0].1), (1, "embeddings", &right));
        }
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_name_that_cannot_be_written_is_refused_early() {
        let scratch = scratch();
        let refusal = |path: &Path| check(path).unwrap_err().to_string();
        for name in ["a", "a.NPY.gz", "npy", ".npy", "a.csv"] {
            assert!(refusal(Path::new(name)).ends_with("must end in .npy or .safetensors"), "{name}");
        }
        let missing = scratch.path().join("missing/a.npy");
        assert!(refusal(&missing).contains("there is no folder "), "{}", refusal(&missing));
        let folder = scratch.path().join("folder.npy");
        fs::create_dir(&folder).unwrap();
        assert!(refusal(&folder).ends_with("is a folder"));
    }
}
