//! The two formats of the output: a header of 128 bytes, then the rows.
//!
//! The header has room for any number of rows, so it can be written again once that is known.

use std::path::Path;

use crate::Result;

/// Bytes of either header.
pub(crate) const HEADER: usize = 128;

/// Chosen by the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The one of numpy, version 1.0.
    Npy,
    /// With one tensor, `embeddings`.
    Safetensors,
}

impl Format {
    pub(crate) fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|suffix| suffix.to_str()) {
            Some("npy") => Ok(Self::Npy),
            Some("safetensors") => Ok(Self::Safetensors),
            _ => Err(format!("output {}: must end in .npy or .safetensors", path.display()).into()),
        }
    }

    /// Of `rows` × `width` numbers in `f32`, little-endian.
    pub(crate) fn header(self, rows: u64, width: usize) -> [u8; HEADER] {
        match self {
            Self::Npy => npy(rows, width),
            Self::Safetensors => safetensors(rows, width),
        }
    }
}

fn npy(rows: u64, width: usize) -> [u8; HEADER] {
    let dictionary = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}");
    let mut header = filled(b"\x93NUMPY\x01\x00\x76\x00", &dictionary);
    header[HEADER - 1] = b'\n';
    header
}

fn safetensors(rows: u64, width: usize) -> [u8; HEADER] {
    let bytes = rows * width as u64 * 4;
    let entry = format!(
        "{{\"embeddings\":{{\"dtype\":\"F32\",\"shape\":[{rows},{width}],\"data_offsets\":[0,{bytes}]}}}}"
    );
    filled(&(HEADER as u64 - 8).to_le_bytes(), &entry)
}

/// Both formats allow spaces at the end.
fn filled(start: &[u8], text: &str) -> [u8; HEADER] {
    let mut header = [b' '; HEADER];
    let (head, rest) = header.split_at_mut(start.len());
    head.copy_from_slice(start);
    rest[..text.len()].copy_from_slice(text.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length an npy file states is that of all after its first 10 bytes.
    #[test]
    fn an_npy_header_is_as_long_as_it_says() {
        for rows in [0, 1, 123_456, u64::MAX] {
            let header = Format::Npy.header(rows, 384);
            assert_eq!(&header[..8], b"\x93NUMPY\x01\x00");
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])) + 10, HEADER);
            let text = std::str::from_utf8(&header[10..]).unwrap();
            let dictionary = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 384), }}");
            assert_eq!(text.trim_end(), dictionary);
            assert!(text.ends_with('\n') && text.matches('\n').count() == 1);
        }
    }

    #[test]
    fn a_safetensors_header_is_as_long_as_it_says_whatever_the_numbers() {
        for rows in [0, 1, u64::MAX / (384 * 4)] {
            let header = Format::Safetensors.header(rows, 384);
            assert_eq!(u64::from_le_bytes(header[..8].try_into().unwrap()) + 8, HEADER as u64);
            let entry: serde_json::Value = serde_json::from_slice(&header[8..]).unwrap();
            assert_eq!(entry["embeddings"]["shape"], serde_json::json!([rows, 384]));
            assert_eq!(entry["embeddings"]["data_offsets"], serde_json::json!([0, rows * 384 * 4]));
        }
    }

    #[test]
    fn the_name_says_the_format() {
        assert_eq!(Format::of(Path::new("a.npy")).unwrap(), Format::Npy);
        assert_eq!(Format::of(Path::new("b/a.x.safetensors")).unwrap(), Format::Safetensors);
        for name in ["a", "a.NPY.gz", "npy", ".npy", "a.csv", "a.npy/"] {
            let format = Format::of(Path::new(name));
            assert_eq!(format.is_ok(), name == "a.npy/", "{name}");
        }
    }
}
