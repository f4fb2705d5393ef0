//! Dictionaries: words and text that every block may refer to, so that a small block need not say them again.
//!
//! A block names its dictionary by number. One that was released is kept for ever, unchanged; a better one is added at
//! the end, and new blocks are written with that. `tools/make_archive_dictionary.py` makes them.

use std::borrow::Cow;
use std::sync::LazyLock;

use zstd::dict::DecoderDictionary;

use super::words::{CODED_BYTES_MAX, Words};

/// A dictionary, unfolded when it is first used.
pub(super) struct Dictionary {
    pub(super) id: u64,
    /// What zstd may refer to.
    pub(super) text: &'static [u8],
    /// What it is written in before that. The first had none.
    words: Option<LazyLock<Words>>,
    decoder: LazyLock<DecoderDictionary<'static>>,
}

/// Makes an entry of [`ALL`]: a number, and the files that are meant by it for ever.
macro_rules! dictionary {
    ($id:literal, $words:expr, $file:literal) => {
        Dictionary {
            id: $id,
            text: include_bytes!($file),
            words: $words,
            decoder: LazyLock::new(|| DecoderDictionary::copy(include_bytes!($file))),
        }
    };
}

/// The list of words in a file, unfolded when it is first used.
macro_rules! words {
    ($file:literal) => {
        Some(LazyLock::new(|| Words::read(include_bytes!($file))))
    };
}

/// All dictionaries there ever were, the newest last.
static ALL: [Dictionary; 2] = [
    dictionary!(1, None, "../../../assets/archive-1.dict"),
    dictionary!(2, words!("../../../assets/archive-2.words"), "../../../assets/archive-2.dict"),
];

/// What new blocks are written with.
pub(super) fn newest() -> &'static Dictionary {
    &ALL[ALL.len() - 1]
}

/// The dictionary of a number.
pub(super) fn find(id: u64) -> Option<&'static Dictionary> {
    ALL.iter().find(|dictionary| dictionary.id == id)
}

impl Dictionary {
    /// A frame as it is given to zstd.
    pub(super) fn encode<'a>(&self, content: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.words {
            Some(words) => Cow::Owned(words.encode(content)),
            None => Cow::Borrowed(content),
        }
    }

    /// How long a frame of so many bytes can be when it is given to zstd.
    pub(super) fn coded_bytes_max(&self, bytes: usize) -> usize {
        if self.words.is_some() { CODED_BYTES_MAX * bytes } else { bytes }
    }

    /// The frame of so many bytes that zstd gave back; `None` if it is none.
    pub(super) fn decode(&self, coded: Vec<u8>, bytes: usize) -> Option<Vec<u8>> {
        match &self.words {
            Some(words) => words.decode(&coded, bytes),
            None => (coded.len() == bytes).then_some(coded),
        }
    }

    pub(super) fn decoder(&self) -> &DecoderDictionary<'static> {
        &self.decoder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    /// A released dictionary that changes makes every block written with it unreadable.
    #[test]
    fn released_dictionaries_stay_as_they_are() {
        let sum = |bytes: &[u8]| xxh3_64(bytes);
        let released = [
            (1, sum(include_bytes!("../../../assets/archive-1.dict")), 2_364_898_241_943_007_607),
            (2, sum(include_bytes!("../../../assets/archive-2.words")), 0),
            (2, sum(include_bytes!("../../../assets/archive-2.dict")), 0),
        ];
        for (id, found, expected) in released {
            assert_eq!(found, expected, "dictionary {id}");
            assert!(find(id).is_some());
        }
        assert_eq!(released.last().map(|last| last.0), Some(newest().id));
    }

    #[test]
    fn numbers_are_given_once_and_zero_to_none() {
        assert!(ALL.windows(2).all(|pair| pair[0].id < pair[1].id));
        assert!(find(0).is_none());
        assert_eq!(newest().id, 2);
    }
}
