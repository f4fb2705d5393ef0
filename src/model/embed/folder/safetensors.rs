//! The weights' file: a length, a table of contents in JSON, then numbers.
//!
//! Every place in the table is checked against the file before anything is read, and a tensor is read only when it
//! is asked for, a piece at a time, so that the file is never in memory twice.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::FolderError;

/// Largest table of contents.
const CONTENTS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How much is read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// What some files write before every name.
const PREFIX: &str = "bert.";

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// The tensors of a file.
pub(super) struct Tensors {
    path: PathBuf,
    file: File,
    entries: HashMap<String, Entry>,
    /// Where the numbers begin.
    start: u64,
}

impl Tensors {
    pub(super) fn open(path: &Path) -> Result<Self, FolderError> {
        let unread = |cause| FolderError::Unread { file: path.to_owned(), cause };
        let mut file = File::open(path).map_err(unread)?;
        let bytes = file.metadata().map_err(unread)?.len();
        let contents = contents(&mut file, bytes).map_err(|reason| FolderError::unusable(path, reason))?;
        let start = 8 + contents.len() as u64;
        let entries = entries(&contents).map_err(|reason| FolderError::unusable(path, reason))?;
        let tensors = Self { path: path.to_owned(), file, entries, start };
        tensors.check_places(bytes - start)?;
        Ok(tensors)
    }

    /// The two sizes of a matrix, none of them zero.
    pub(super) fn size(&self, name: &str) -> Result<[usize; 2], FolderError> {
        let shape = &self.entry(name)?.shape;
        match shape[..] {
            [rows, columns] if rows > 0 && columns > 0 => Ok([rows, columns]),
            _ => Err(self.refuse(name, format!("its shape is {shape:?} and not that of a matrix"))),
        }
    }

    /// How many layers are named. Whether they are whole shows when they are read.
    pub(super) fn layers(&self) -> usize {
        let layer = |name: &String| name.strip_prefix("encoder.layer.")?.split('.').next()?.parse::<usize>().ok();
        self.entries.keys().filter_map(layer).max().map_or(0, |last| last.saturating_add(1))
    }

    /// The numbers of a tensor that must have this shape.
    pub(super) fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, FolderError> {
        let entry = self.entry(name)?;
        if entry.shape != shape {
            return Err(self.refuse(name, format!("its shape is {:?} where {shape:?} is needed", entry.shape)));
        }
        if entry.dtype != "F32" {
            let reason = format!("it holds {}, and only F32 is read; save the model as float32", entry.dtype);
            return Err(self.refuse(name, reason));
        }
        let [from, to] = entry.data_offsets;
        let numbers = numbers(&mut self.file, self.start + from, to - from);
        let numbers = numbers.map_err(|cause| FolderError::Unread { file: self.path.clone(), cause })?;
        match numbers.iter().all(|number| number.is_finite()) {
            true => Ok(numbers),
            false => Err(self.refuse(name, "it has values that are no numbers (NaN or infinite)".into())),
        }
    }

    fn entry(&self, name: &str) -> Result<&Entry, FolderError> {
        let missing = || self.refuse(name, "it is not there; is this a model of the BERT family?".into());
        self.entries.get(name).ok_or_else(missing)
    }

    fn refuse(&self, tensor: &str, reason: String) -> FolderError {
        FolderError::Tensor { file: self.path.clone(), tensor: tensor.to_owned(), reason }
    }

    /// Every tensor lies within the file and is as long as its shape says.
    fn check_places(&self, bytes: u64) -> Result<(), FolderError> {
        for (name, entry) in &self.entries {
            let [from, to] = entry.data_offsets;
            if from > to || to > bytes {
                let reason = format!("it lies at {from}..{to} and there are {bytes} bytes; was the file copied whole?");
                return Err(self.refuse(name, reason));
            }
            let count = entry.shape.iter().try_fold(1_u64, |count, &size| count.checked_mul(size as u64));
            if entry.dtype == "F32" && count.and_then(|count| count.checked_mul(4)) != Some(to - from) {
                let reason = format!("its shape {:?} does not fit into {} bytes", entry.shape, to - from);
                return Err(self.refuse(name, reason));
            }
        }
        Ok(())
    }
}

/// The table of contents at the beginning of a file of so many bytes.
fn contents(file: &mut File, bytes: u64) -> Result<Vec<u8>, String> {
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| "it is too short to be safetensors".to_owned())?;
    let length = u64::from_le_bytes(length);
    // A Git LFS pointer begins with text, which reads as an enormous length.
    if length > CONTENTS_BYTES_MAX || length > bytes - 8 {
        return Err("it is not safetensors; was it downloaded whole?".into());
    }
    let mut contents = vec![0; length as usize];
    file.read_exact(&mut contents).map_err(|error| error.to_string())?;
    Ok(contents)
}

fn entries(contents: &[u8]) -> Result<HashMap<String, Entry>, String> {
    let table: HashMap<String, Value> =
        serde_json::from_slice(contents).map_err(|error| format!("its table of contents is no JSON: {error}"))?;
    let entry = |(name, value): (String, Value)| match serde_json::from_value(value) {
        Ok(entry) => Ok((name.strip_prefix(PREFIX).map_or(name.clone(), str::to_owned), entry)),
        Err(error) => Err(format!("its entry for tensor `{name}` cannot be read: {error}")),
    };
    table.into_iter().filter(|(name, _)| name != "__metadata__").map(entry).collect()
}

/// Numbers at a place of the file that was checked before.
fn numbers(file: &mut File, from: u64, bytes: u64) -> std::io::Result<Vec<f32>> {
    file.seek(SeekFrom::Start(from))?;
    let mut left = bytes as usize;
    let (mut numbers, mut piece) = (Vec::with_capacity(left / 4), [0; PIECE_BYTES]);
    while left > 0 {
        let piece = &mut piece[..left.min(PIECE_BYTES)];
        file.read_exact(piece)?;
        numbers.extend(piece.as_chunks::<4>().0.iter().map(|&number| f32::from_le_bytes(number)));
        left -= piece.len();
    }
    Ok(numbers)
}
