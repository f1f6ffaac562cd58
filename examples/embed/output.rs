//! The output file: rows are appended as they come, and the header is set right in the end.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::iter;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::format::Format;

/// A file of rows that has its name only when it is complete.
///
/// Until then it is called `NAME.PID.part`, with the number of the process, and always a new file: a
/// file with a wrong header, or half of the rows, would look like a result. It is removed when an
/// error ends the work; a signal leaves it behind, and it may be deleted.
pub(crate) struct RowFile {
    file: BufWriter<File>,
    format: Format,
    width: usize,
    rows: u64,
    path: PathBuf,
    part: PathBuf,
}

impl RowFile {
    pub(crate) fn create(path: &Path, width: usize) -> Result<Self> {
        let format = Format::of(path)?;
        check_place("output", path)?;
        let (file, part) = create_part(path)?;
        let mut rows =
            Self { file: BufWriter::new(file), format, width, rows: 0, path: path.to_owned(), part };
        let header = rows.format.header(0, width);
        rows.file.write_all(&header).map_err(|error| rows.failed(&error))?;
        Ok(rows)
    }

    /// Appends whole rows.
    pub(crate) fn append(&mut self, values: &[f32]) -> Result<()> {
        for value in values {
            self.file.write_all(&value.to_le_bytes()).map_err(|error| self.failed(&error))?;
        }
        self.rows += (values.len() / self.width) as u64;
        Ok(())
    }

    /// Writes the header anew and gives the file its name.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.complete().map_err(|error| self.failed(&error))?;
        Ok(())
    }

    fn complete(&mut self) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(&self.format.header(self.rows, self.width))?;
        self.file.flush()?;
        fs::rename(&self.part, &self.path)
    }

    fn failed(&self, error: &io::Error) -> String {
        format!("output {}: {error}", self.path.display())
    }
}

/// Says early what would fail in the end: where the file is to be there is no folder, or one has its name.
pub(crate) fn check_place(option: &str, path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(format!("{option} {}: there is no folder {}", path.display(), folder.display()).into());
    }
    if path.is_dir() {
        return Err(format!("{option} {}: is a folder", path.display()).into());
    }
    Ok(())
}

/// A file that nobody has: not the user, not another run, not a killed one of the same number.
fn create_part(path: &Path) -> Result<(File, PathBuf)> {
    let process = std::process::id();
    let names = iter::once(format!(".{process}.part")).chain((2..).map(|n| format!(".{process}-{n}.part")));
    for name in names {
        let mut part = path.as_os_str().to_owned();
        part.push(name);
        match File::create_new(&part) {
            Ok(file) => return Ok((file, part.into())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("output {}: {error}", part.display()).into()),
        }
    }
    unreachable!("there are more names than files")
}

impl Drop for RowFile {
    fn drop(&mut self) {
        // Gone already when the file is complete.
        let _ = fs::remove_file(&self.part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER;
    use crate::tests::{alone, scratch};
    use tch::Tensor;

    fn write(name: &str, parts: &[&[f32]]) -> PathBuf {
        let path = scratch(name);
        let mut file = RowFile::create(&path, 2).unwrap();
        for part in parts {
            file.append(part).unwrap();
        }
        file.finish().unwrap();
        path
    }

    /// libtorch's own readers are the judges.
    #[test]
    fn both_formats_are_read_back_by_others() {
        let _alone = alone();
        for (parts, rows) in [(&[&[][..]][..], 0), (&[&[1.0, 2.0], &[], &[3.0, 4.0, 5.0, -0.5]], 3)] {
            let right: Vec<f32> = parts.concat();
            let right = Tensor::from_slice(&right).view([rows, 2]);
            let npy = write("rows.npy", parts);
            assert_eq!(Tensor::read_npy(&npy).unwrap(), right);
            let safetensors = write("rows.safetensors", parts);
            let read = Tensor::read_safetensors(&safetensors).unwrap();
            assert_eq!((read.len(), &*read[0].0, &read[0].1), (1, "embeddings", &right));
            let bytes = HEADER as u64 + u64::try_from(rows).unwrap() * 8;
            assert_eq!([npy, safetensors].map(|path| fs::metadata(path).unwrap().len()), [bytes; 2]);
        }
    }

    #[test]
    fn what_is_not_finished_leaves_no_file_and_spares_the_old_one() {
        let path = write("old.npy", &[&[1.0, 2.0]]);
        let before = fs::read(&path).unwrap();
        let mut file = RowFile::create(&path, 2).unwrap();
        file.append(&[3.0, 4.0]).unwrap();
        let part = file.part.clone();
        assert!(part.exists());
        drop(file);
        assert!(!part.exists());
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn two_runs_share_no_part_and_spare_a_file_of_the_user() {
        let path = scratch("shared.npy");
        let own = scratch("shared.npy.part");
        fs::write(&own, "mine").unwrap();
        let [mut first, mut second] = [1, 2].map(|_| RowFile::create(&path, 2).unwrap());
        first.append(&[1.0, 2.0]).unwrap();
        second.append(&[3.0, 4.0]).unwrap();
        assert_ne!(first.part, second.part);
        for file in [&first, &second] {
            assert!(file.part.display().to_string().contains(&std::process::id().to_string()));
        }
        for (file, values) in [(first, [1.0_f32, 2.0]), (second, [3.0, 4.0])] {
            file.finish().unwrap();
            let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
            assert_eq!(fs::read(&path).unwrap()[HEADER..], bytes);
        }
        assert_eq!(fs::read_to_string(own).unwrap(), "mine");
    }

    #[test]
    fn a_missing_folder_and_a_folder_are_named() {
        let message = |path: &Path| RowFile::create(path, 2).err().unwrap().to_string();
        let missing = scratch("missing").join("a.npy");
        assert!(message(&missing).contains("there is no folder "), "{}", message(&missing));
        let folder = scratch("folder.npy");
        fs::create_dir_all(&folder).unwrap();
        assert!(message(&folder).ends_with("is a folder"));
    }
}
