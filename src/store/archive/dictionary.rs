//! Dictionaries: text that every block may refer to, so that a small block need not say it again.
//!
//! A block names its dictionary by number. One that was released is kept for ever, unchanged; a better one is added at
//! the end, and new blocks are written with that. `tools/make_archive_dictionary.py` trains them.

use std::sync::LazyLock;

use zstd::dict::{DecoderDictionary, EncoderDictionary};

use super::block::Level;

/// A dictionary, unfolded when it is first used.
pub(super) struct Dictionary {
    pub(super) id: u64,
    quick: LazyLock<EncoderDictionary<'static>>,
    thorough: LazyLock<EncoderDictionary<'static>>,
    decoder: LazyLock<DecoderDictionary<'static>>,
}

/// Makes an entry of [`ALL`]: a number, and the file that is meant by it for ever.
macro_rules! dictionary {
    ($id:literal, $file:literal) => {
        Dictionary {
            id: $id,
            quick: LazyLock::new(|| EncoderDictionary::copy(include_bytes!($file), Level::Quick.number())),
            thorough: LazyLock::new(|| EncoderDictionary::copy(include_bytes!($file), Level::Thorough.number())),
            decoder: LazyLock::new(|| DecoderDictionary::copy(include_bytes!($file))),
        }
    };
}

/// All dictionaries there ever were, the newest last.
static ALL: [Dictionary; 1] = [dictionary!(1, "../../../assets/archive-1.dict")];

/// What new blocks are written with.
pub(super) fn newest() -> &'static Dictionary {
    &ALL[ALL.len() - 1]
}

/// The dictionary of a number.
pub(super) fn find(id: u64) -> Option<&'static Dictionary> {
    ALL.iter().find(|dictionary| dictionary.id == id)
}

impl Dictionary {
    pub(super) fn encoder(&self, level: Level) -> &EncoderDictionary<'static> {
        match level {
            Level::Quick => &self.quick,
            Level::Thorough => &self.thorough,
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
        let released = [(1, xxh3_64(include_bytes!("../../../assets/archive-1.dict")), 2_364_898_241_943_007_607)];
        for (id, found, expected) in released {
            assert_eq!(found, expected, "dictionary {id}");
            assert!(find(id).is_some());
        }
        assert_eq!(released.len(), ALL.len());
    }

    #[test]
    fn numbers_are_given_once_and_zero_to_none() {
        assert!(ALL.windows(2).all(|pair| pair[0].id < pair[1].id));
        assert!(find(0).is_none());
        assert_eq!(newest().id, 1);
    }
}
