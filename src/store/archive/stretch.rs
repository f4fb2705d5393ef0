//! Where words may be: text is cut into stretches before any of them is looked up.
//!
//! A stretch is letters with the space before them, or whatever is between. All of them are found beforehand, with a bit for
//! each byte: if each were found when the one before it is done, the processor would have to wait for that.

/// Where the stretches of a text end.
pub(super) fn stretches(text: &[u8]) -> Vec<u32> {
    let (chunks, rest) = text.as_chunks();
    let mut last = [0; CHUNK];
    last[..rest.len()].copy_from_slice(rest);
    let mut marks = chunks.iter().chain([&last, &[0; CHUNK]]).map(Marks::of);
    let mut ends = Vec::with_capacity(text.len() / 3 + 2);
    let (mut before, mut here) = (Marks::default(), marks.next().unwrap_or_default());
    for (at, next) in marks.enumerate() {
        // One ends where the next one starts.
        let mut starts = here.starts(before, next);
        while starts > 0 {
            ends.push((CHUNK * at) as u32 + starts.trailing_zeros());
            starts &= starts - 1;
        }
        (before, here) = (here, next);
    }
    ends.push(text.len() as u32);
    ends
}

/// Bytes that are looked at together, one bit for each.
const CHUNK: usize = 64;

/// What the bytes of a chunk are, the lowest bit for the first.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Marks {
    /// Of words: a to z of either case, an apostrophe, or part of one beyond ASCII.
    letters: u64,
    spaces: u64,
}

impl Marks {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "vector instructions that every such processor has")]
    fn of(bytes: &[u8; CHUNK]) -> Self {
        // SAFETY: SSE2 belongs to x86_64.
        unsafe { sse2::marks(bytes) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of(bytes: &[u8; CHUNK]) -> Self {
        Self::one_by_one(bytes)
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn one_by_one(bytes: &[u8; CHUNK]) -> Self {
        let mut marks = Self::default();
        for (at, byte) in bytes.iter().enumerate() {
            let letter = byte.is_ascii_alphabetic() | (*byte == b'\'') | (*byte > 127);
            marks.letters |= u64::from(letter) << at;
            marks.spaces |= u64::from(*byte == b' ') << at;
        }
        marks
    }

    /// Where stretches start.
    fn starts(self, before: Self, next: Self) -> u64 {
        let after_letter = self.letters << 1 | before.letters >> 63;
        let after_space = self.spaces << 1 | before.spaces >> 63;
        let before_letter = self.letters >> 1 | next.letters << 63;
        let first_letter = self.letters & !after_letter & !after_space;
        let first_other = !self.letters & after_letter;
        first_letter | first_other | self.spaces & before_letter
    }
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::*;

    use super::{CHUNK, Marks};

    #[target_feature(enable = "sse2")]
    pub(super) fn marks(bytes: &[u8; CHUNK]) -> Marks {
        let mut marks = Marks::default();
        for (at, sixteen) in bytes.as_chunks::<16>().0.iter().enumerate() {
            let sixteen = u128::from_le_bytes(*sixteen);
            let bytes = _mm_set_epi64x((sixteen >> 64) as i64, sixteen as i64);
            marks.letters |= u64::from(gathered(letters(bytes))) << (16 * at);
            marks.spaces |= u64::from(gathered(_mm_cmpeq_epi8(bytes, each(b' ')))) << (16 * at);
        }
        marks
    }

    /// The highest bit of each byte that is a letter.
    #[target_feature(enable = "sse2")]
    fn letters(bytes: __m128i) -> __m128i {
        let lower_case = _mm_or_si128(bytes, each(0x20));
        // Bytes are compared with a sign, so `a` is moved to the smallest number.
        let from_a = _mm_sub_epi8(lower_case, each(b'a' + 0x80));
        let a_to_z = _mm_cmplt_epi8(from_a, each(0x80 + 26));
        let apostrophe = _mm_cmpeq_epi8(bytes, each(b'\''));
        // The highest bit is set in what is beyond ASCII anyway.
        _mm_or_si128(_mm_or_si128(a_to_z, apostrophe), bytes)
    }

    #[target_feature(enable = "sse2")]
    fn each(byte: u8) -> __m128i {
        _mm_set1_epi8(byte.cast_signed())
    }

    #[target_feature(enable = "sse2")]
    fn gathered(bytes: __m128i) -> u16 {
        _mm_movemask_epi8(bytes) as u16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What [`stretches`] does all at once, one byte after the other.
    fn slow_stretches(text: &[u8]) -> Vec<u32> {
        let letter =
            |at: usize| text.get(at).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'\'' || *byte > 127);
        let word_space = |at: usize| text[at] == b' ' && letter(at + 1);
        let ends = |at: usize| word_space(at) || letter(at) != letter(at - 1) && !word_space(at - 1);
        (1..text.len()).filter(|at| ends(*at)).map(|at| at as u32).collect()
    }

    #[test]
    fn every_byte_is_the_same_to_either_kind_of_processor() {
        for first in (0..=255_u8).step_by(CHUNK) {
            let bytes = std::array::from_fn(|at| first + at as u8);
            assert_eq!(Marks::of(&bytes), Marks::one_by_one(&bytes), "from {first}");
        }
    }

    proptest! {
        #[test]
        fn stretches_are_the_same_all_at_once(text in "([ a-z'.A-Z@\\[`{é1\n]|[a-z]{3,20}|[ .]{2,8}){1,60}") {
            let text = text.as_bytes();
            let inside = |end: &u32| (1..text.len()).contains(&(*end as usize));
            prop_assert_eq!(stretches(text).into_iter().filter(inside).collect::<Vec<_>>(), slow_stretches(text));
        }
    }
}
