//! Dictionaries: words and text that every block may refer to, so that a small block need not say them again.
//!
//! A block names its dictionary by number. One that was released is kept for ever, unchanged; a better one is added at
//! the end, and new blocks are written with that, unless its words do not fit. `tools/make_archive_dictionary.py` makes them.

use std::borrow::Cow;
use std::sync::LazyLock;

use zstd::dict::DecoderDictionary;
use zstd::zstd_safe::CParameter;

use super::words::{CODED_BYTES_MAX, Words};

/// A dictionary, unfolded when it is first used.
pub(super) struct Dictionary {
    pub(super) id: u64,
    /// What zstd may refer to.
    pub(super) text: &'static [u8],
    /// What zstd is told when somebody may be waiting.
    pub(super) quick: Settings,
    /// What it is written in before that. The first had none.
    words: Option<LazyLock<Words>>,
    decoder: LazyLock<DecoderDictionary<'static>>,
}

/// How zstd is to work.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) parameters: &'static [CParameter],
    /// Whether it may refer to the dictionary's text. What was written without is read with it all the same.
    pub(super) with_text: bool,
    /// So many bytes are left as they are: in so few it would find next to nothing.
    pub(super) left_as_it_is_bytes_max: usize,
}

/// Makes an entry of [`ALL`]: a number, and the files that are meant by it for ever.
macro_rules! dictionary {
    ($id:literal, $file:literal, $quick:expr, $words:expr) => {
        Dictionary {
            id: $id,
            text: include_bytes!($file),
            quick: $quick,
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
    dictionary!(
        1,
        "../../../assets/archive-1.dict",
        Settings { parameters: &[CParameter::CompressionLevel(3)], with_text: true, left_as_it_is_bytes_max: 0 },
        None
    ),
    dictionary!(
        2,
        "../../../assets/archive-2.dict",
        // The words have saved most already. To look for more in the text as well, and to give each byte as many bits as it
        // deserves, takes twice as long for a tenth of the bytes, and that is done when nobody waits. In a small block there is hardly
        // anything to be found even without that: a fifth of the time for a twelfth of the bytes.
        Settings {
            parameters: &[CParameter::CompressionLevel(-1), CParameter::HashLog(12)],
            with_text: false,
            left_as_it_is_bytes_max: 2_048,
        },
        words!("../../../assets/archive-2.words")
    ),
];

/// What a frame is written with, and as what: in words, unless it is in another script or no language at all.
pub(super) fn fitting(content: &[u8]) -> (&'static Dictionary, Cow<'_, [u8]>) {
    let [plain, newest] = &ALL;
    let coded = newest.encode(content);
    let fits = 5 * coded.len() <= 4 * content.len();
    if fits { (newest, coded) } else { (plain, Cow::Borrowed(content)) }
}

/// The dictionary of a number.
pub(super) fn find(id: u64) -> Option<&'static Dictionary> {
    ALL.iter().find(|dictionary| dictionary.id == id)
}

impl Dictionary {
    /// A frame as it is given to zstd.
    fn encode<'a>(&self, content: &'a [u8]) -> Cow<'a, [u8]> {
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
    pub(super) fn decode(&self, coded: &[u8], bytes: usize) -> Option<Vec<u8>> {
        match &self.words {
            Some(words) => words.decode(coded, bytes),
            None => (coded.len() == bytes).then(|| coded.to_vec()),
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
            (2, sum(include_bytes!("../../../assets/archive-2.words")), 423_289_426_570_462_106),
            (2, sum(include_bytes!("../../../assets/archive-2.dict")), 4_163_130_938_395_649_927),
        ];
        for (id, found, expected) in released {
            assert_eq!(found, expected, "dictionary {id}");
            assert!(find(id).is_some());
        }
        assert_eq!(released.last().map(|last| last.0), ALL.last().map(|newest| newest.id));
    }

    #[test]
    fn numbers_are_given_once_and_zero_to_none() {
        assert!(ALL.windows(2).all(|pair| pair[0].id < pair[1].id));
        assert!(find(0).is_none());
    }

    #[test]
    fn words_are_used_where_they_fit() {
        let check = |text: &str, expected: u64| assert_eq!(fitting(text.as_bytes()).0.id, expected, "{text}");
        check("I think that we should go there next week.", 2);
        check("Ik denk dat we daar volgende week naartoe gaan.", 2);
        check("Мне кажется, что нам надо поехать туда.", 1);
        check("我觉得我们下周应该去那里。", 1);
        check("iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4", 1);
    }
}
