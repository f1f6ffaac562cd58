//! The output file: rows are appended as they come, and the header is set right in the end.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::iter;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use {
    rustix::fs::{AtFlags, CWD, Mode, OFlags},
    std::os::fd::AsRawFd as _,
};

use crate::Result;
use crate::format::Format;

/// A file of rows that has its name only when it is complete.
///
/// A file with a wrong header, or half of the rows, would look like a result. Until then it has no name at
/// all, so that nothing is left behind, however the process ends. Where the system knows no such files,
/// it is called `NAME.PID.part`, with the number of the process, and always a new file: an error
/// removes it, a kill leaves it, and it may be deleted.
pub(crate) struct RowFile {
    file: BufWriter<File>,
    format: Format,
    width: usize,
    rows: u64,
    path: PathBuf,
    /// The name it has meanwhile, if any.
    part: Option<PathBuf>,
}

impl RowFile {
    pub(crate) fn create(path: &Path, width: usize) -> Result<Self> {
        let format = Format::of(path)?;
        check_place("output", path)?;
        let (file, part) = match nameless(path) {
            Some(file) => (file, None),
            None => {
                with_free_name(path, |part| File::create_new(part)).map(|(file, part)| (file, Some(part)))?
            }
        };
        Self::begin(Self { file: BufWriter::new(file), format, width, rows: 0, path: path.to_owned(), part })
    }

    fn begin(mut rows: Self) -> Result<Self> {
        let header = rows.format.header(0, rows.width);
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
        if self.part.is_none() {
            // No system gives a file a name that another one has; renaming does.
            self.part = Some(with_free_name(&self.path, |part| give_name(self.file.get_ref(), part))?.1);
        }
        let renamed = self.part.iter().try_for_each(|part| fs::rename(part, &self.path));
        renamed.map_err(|error| self.failed(&error).into())
    }

    fn complete(&mut self) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(&self.format.header(self.rows, self.width))?;
        self.file.flush()
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

/// A file in the folder of `path` that has no name, where the system knows such files.
#[cfg(target_os = "linux")]
fn nameless(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    // What a new file gets, less what the user takes away from new files.
    let permissions = Mode::from_raw_mode(0o666);
    rustix::fs::open(folder, flags, permissions).ok().map(File::from)
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> Option<File> {
    None
}

#[cfg(target_os = "linux")]
fn give_name(file: &File, name: &Path) -> io::Result<()> {
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, descriptor, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn give_name(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes a file of a name that nobody has: not the user, not another run, not a killed one of the same
/// number.
fn with_free_name<T>(path: &Path, create: impl Fn(&Path) -> io::Result<T>) -> Result<(T, PathBuf)> {
    let process = std::process::id();
    let names = iter::once(format!(".{process}.part")).chain((2..).map(|n| format!(".{process}-{n}.part")));
    for name in names {
        let mut part = path.as_os_str().to_owned();
        part.push(name);
        match create(Path::new(&part)) {
            Ok(made) => return Ok((made, part.into())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("output {}: {error}", Path::new(&part).display()).into()),
        }
    }
    unreachable!("there are more names than files")
}

impl Drop for RowFile {
    fn drop(&mut self) {
        // Gone already when the file is complete.
        let _ = self.part.as_ref().map(fs::remove_file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER;
    use crate::tests::{alone, scratch};
    use tch::Tensor;
    use tempfile::TempDir;

    fn write(folder: &TempDir, name: &str, parts: &[&[f32]]) -> PathBuf {
        let path = folder.path().join(name);
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
        let (_alone, scratch) = (alone(), scratch());
        for (parts, rows) in [(&[&[][..]][..], 0), (&[&[1.0, 2.0], &[], &[3.0, 4.0, 5.0, -0.5]], 3)] {
            let right: Vec<f32> = parts.concat();
            let right = Tensor::from_slice(&right).view([rows, 2]);
            let npy = write(&scratch, "rows.npy", parts);
            assert_eq!(Tensor::read_npy(&npy).unwrap(), right);
            let safetensors = write(&scratch, "rows.safetensors", parts);
            let read = Tensor::read_safetensors(&safetensors).unwrap();
            assert_eq!((read.len(), &*read[0].0, &read[0].1), (1, "embeddings", &right));
            let bytes = HEADER as u64 + u64::try_from(rows).unwrap() * 8;
            assert_eq!([npy, safetensors].map(|path| fs::metadata(path).unwrap().len()), [bytes; 2]);
        }
    }

    /// As where the system knows no files without a name.
    fn create_named(path: &Path) -> RowFile {
        let (file, part) = with_free_name(path, |part| File::create_new(part)).unwrap();
        let format = Format::of(path).unwrap();
        let file = BufWriter::new(file);
        let rows = RowFile { file, format, width: 2, rows: 0, path: path.to_owned(), part: Some(part) };
        RowFile::begin(rows).unwrap()
    }

    fn files_beside(path: &Path) -> Vec<PathBuf> {
        let name = path.file_name().unwrap().to_str().unwrap();
        let files = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with(name)).collect();
        files.sort();
        files
    }

    #[test]
    fn what_is_not_finished_leaves_no_file_and_spares_the_old_one() {
        let scratch = scratch();
        let path = write(&scratch, "old.npy", &[&[1.0, 2.0]]);
        let before = fs::read(&path).unwrap();
        for create in [|path: &Path| RowFile::create(path, 2).unwrap(), create_named] {
            let mut file = create(&path);
            file.append(&[3.0, 4.0]).unwrap();
            assert_eq!(files_beside(&path).len(), 1 + usize::from(file.part.is_some()));
            drop(file);
            assert_eq!(files_beside(&path), [&*path]);
            assert_eq!(fs::read(&path).unwrap(), before);
        }
    }

    #[test]
    fn a_run_that_is_killed_leaves_no_file() {
        let scratch = scratch();
        let path = scratch.path().join("killed.npy");
        if nameless(&path).is_none() {
            return;
        }
        let mut file = RowFile::create(&path, 2).unwrap();
        file.append(&vec![1.0; 1 << 14]).unwrap();
        // A process that is killed drops nothing.
        std::mem::forget(file);
        assert_eq!(files_beside(&path), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn two_runs_share_no_part_and_spare_a_file_of_the_user() {
        let scratch = scratch();
        let [path, own] = ["shared.npy", "shared.npy.part"].map(|name| scratch.path().join(name));
        fs::write(&own, "mine").unwrap();
        let mut files = [create_named(&path), create_named(&path), RowFile::create(&path, 2).unwrap()];
        assert_ne!(files[0].part, files[1].part);
        for file in &files[..2] {
            let part = file.part.as_ref().unwrap().display().to_string();
            assert!(part.contains(&std::process::id().to_string()), "{part}");
        }
        let values = [[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]];
        for (file, values) in files.iter_mut().zip(&values) {
            file.append(values).unwrap();
        }
        for (file, values) in files.into_iter().zip(values) {
            file.finish().unwrap();
            let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
            assert_eq!(fs::read(&path).unwrap()[HEADER..], bytes);
        }
        assert_eq!(files_beside(&path), [&*path, &*own]);
        assert_eq!(fs::read_to_string(own).unwrap(), "mine");
    }

    #[test]
    fn a_missing_folder_and_a_folder_are_named() {
        let message = |path: &Path| RowFile::create(path, 2).err().unwrap().to_string();
        let scratch = scratch();
        let missing = scratch.path().join("missing/a.npy");
        assert!(message(&missing).contains("there is no folder "), "{}", message(&missing));
        let folder = scratch.path().join("folder.npy");
        fs::create_dir(&folder).unwrap();
        assert!(message(&folder).ends_with("is a folder"));
    }
}
