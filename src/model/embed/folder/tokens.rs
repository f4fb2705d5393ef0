//! Text to numbers, as the model learnt them: WordPiece over BERT-uncased words.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::beginning;
use super::super::words::{Words, add_pieces};
use super::{FolderError, read_json, read_small};

/// How many bytes of a text are read per token that is wanted; words are shorter than that.
const BYTES_PER_TOKEN_MAX: usize = 128;

/// Pieces and their numbers.
pub(super) struct Tokenizer {
    file: PathBuf,
    numbers: HashMap<Box<[u8]>, u32>,
    piece_bytes_max: usize,
    marks: Marks,
}

/// Numbers that stand for no piece of text.
struct Marks {
    /// Before a text.
    first: u32,
    /// After a text.
    last: u32,
    /// Instead of a word that cannot be taken apart.
    unknown: u32,
}

#[derive(Deserialize)]
struct TokenizerJson {
    normalizer: Option<NormalizerJson>,
    model: ModelJson,
}

#[derive(Deserialize)]
struct NormalizerJson {
    lowercase: Option<bool>,
}

#[derive(Deserialize)]
struct ModelJson {
    #[serde(rename = "type")]
    kind: Option<String>,
    // A vocabulary of another kind is a list; it is refused by its kind and not as unreadable.
    vocab: serde_json::Value,
}

impl Tokenizer {
    /// Reads `tokenizer.json`, or else `vocab.txt`, which is taken to be of an uncased model.
    pub(super) fn open(folder: &Path) -> Result<Self, FolderError> {
        let file = folder.join("tokenizer.json");
        match read_json::<TokenizerJson>(&file)? {
            Some(json) => Self::new(file.clone(), numbers_of_json(&file, json)?),
            None => {
                let file = folder.join("vocab.txt");
                let lines = numbers_of_lines(&read_small(&file)?);
                Self::new(file, lines)
            }
        }
    }

    fn new(file: PathBuf, numbers: HashMap<Box<[u8]>, u32>) -> Result<Self, FolderError> {
        let number = |mark: &str| {
            let missing = || FolderError::unusable(&file, format!("it does not know the mark {mark}"));
            numbers.get(mark.as_bytes()).copied().ok_or_else(missing)
        };
        let marks = Marks { first: number("[CLS]")?, last: number("[SEP]")?, unknown: number("[UNK]")? };
        let piece_bytes_max = numbers.keys().map(|piece| piece.len()).max().unwrap_or(0);
        Ok(Self { file, numbers, piece_bytes_max, marks })
    }

    /// Refuses a vocabulary that has more numbers than the model has rows.
    pub(super) fn check(&self, rows: usize) -> Result<(), FolderError> {
        match self.numbers.values().max() {
            Some(&largest) if largest as usize >= rows => {
                let reason =
                    format!("it has the number {largest} and the weights have {rows} rows; are both of one model?");
                Err(FolderError::unusable(&self.file, reason))
            }
            _ => Ok(()),
        }
    }

    /// The numbers of a text between their marks, at most so many; none for a text without words.
    pub(super) fn encode(&self, text: &str, tokens_max: usize) -> Vec<u32> {
        let words = Words::of(beginning(text, tokens_max * BYTES_PER_TOKEN_MAX));
        let mut numbers = vec![self.marks.first];
        // Every word has at least one number, so no more words than numbers are needed.
        for word in words.iter().take(tokens_max) {
            self.add_word(word, &mut numbers);
        }
        if numbers.len() == 1 {
            return Vec::new();
        }
        numbers.truncate(tokens_max - 1);
        numbers.push(self.marks.last);
        numbers
    }

    fn add_word(&self, word: &str, numbers: &mut Vec<u32>) {
        let known = |piece: &[u8]| self.numbers.get(piece).copied();
        if !add_pieces(word, self.piece_bytes_max, known, numbers) {
            numbers.push(self.marks.unknown);
        }
    }
}

fn numbers_of_json(file: &Path, json: TokenizerJson) -> Result<HashMap<Box<[u8]>, u32>, FolderError> {
    if let Some(kind) = json.model.kind.filter(|kind| kind != "WordPiece") {
        let reason = format!("it is a {kind} tokenizer, and only WordPiece can be read");
        return Err(FolderError::unusable(file, reason));
    }
    if json.normalizer.and_then(|normalizer| normalizer.lowercase) == Some(false) {
        return Err(FolderError::unusable(file, "it tells upper from lower case, and only uncased models can be read"));
    }
    let numbers: HashMap<String, u32> = serde_json::from_value(json.model.vocab)
        .map_err(|error| FolderError::unusable(file, format!("its vocabulary cannot be read: {error}")))?;
    Ok(numbers.into_iter().map(|(piece, number)| (piece.into_bytes().into(), number)).collect())
}

/// One piece a line; the number of a piece is that of its line.
fn numbers_of_lines(lines: &[u8]) -> HashMap<Box<[u8]>, u32> {
    let pieces = lines.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    pieces.zip(0..).filter(|(piece, _)| !piece.is_empty()).map(|(piece, number)| (piece.into(), number)).collect()
}
