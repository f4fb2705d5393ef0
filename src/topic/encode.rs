//! A sketch as bytes, for whoever keeps it.
//!
//! | part | bytes |
//! | --- | --- |
//! | form | 1 |
//! | messages | 4 |
//! | words, then each: stem, weight, asked, answered, last | 2, then 8 + 1 + 2 + 2 + 4 |
//! | embedder's name, in bytes; 0 for none | 2, then the name |
//! | dimensions, then the sum of all and of the last exchange | 4, then 4 each |
//! | xxh3 of all before | 8 |
//!
//! Numbers are little endian. Bytes of another form, cut or damaged, are no sketch: it is made anew from the messages.

use xxhash_rust::xxh3::xxh3_64;

use super::sketch::{Sketch, SketchWord, Sums, WORDS_MAX};
use crate::model::embed::EmbedderId;

/// Longest vectors that are read.
const DIMENSIONS_MAX: usize = 1 << 16;

impl Sketch {
    /// The form of the bytes. It changes whenever stems or weights do.
    pub const FORM: u8 = 1;

    /// The sketch as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![Self::FORM];
        bytes.extend(self.messages.to_le_bytes());
        bytes.extend((self.words.len() as u16).to_le_bytes());
        self.words.iter().for_each(|word| encode_word(word, &mut bytes));
        encode_sums(self.meaning.as_ref(), &mut bytes);
        let sum = xxh3_64(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Reads what [`Sketch::encode`] wrote; nothing from other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Sketch> {
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        let mut rest = body.strip_prefix(&[Self::FORM])?;
        if u64::from_le_bytes(*sum) != xxh3_64(body) {
            return None;
        }
        let messages = u32::from_le_bytes(take(&mut rest)?);
        let count = usize::from(u16::from_le_bytes(take(&mut rest)?));
        if WORDS_MAX < count {
            return None;
        }
        let words = (0..count).map(|_| decode_word(&mut rest)).collect::<Option<Vec<_>>>()?;
        let meaning = decode_sums(&mut rest)?;
        let in_order = words.is_sorted_by(|a, b| a.stem < b.stem);
        (in_order && rest.is_empty()).then(|| Sketch::of(words, meaning, messages))
    }
}

fn encode_word(word: &SketchWord, bytes: &mut Vec<u8>) {
    bytes.extend(word.stem.to_le_bytes());
    bytes.push(word.weight);
    bytes.extend(word.asked.to_le_bytes());
    bytes.extend(word.answered.to_le_bytes());
    bytes.extend(word.last.to_le_bytes());
}

fn decode_word(rest: &mut &[u8]) -> Option<SketchWord> {
    Some(SketchWord {
        stem: u64::from_le_bytes(take(rest)?),
        weight: u8::from_le_bytes(take(rest)?),
        asked: u16::from_le_bytes(take(rest)?),
        answered: u16::from_le_bytes(take(rest)?),
        last: u32::from_le_bytes(take(rest)?),
    })
}

/// A sum that could not be read again is left out: too long a name or vector, or none.
fn encode_sums(sums: Option<&Sums>, bytes: &mut Vec<u8>) {
    let fits = |sums: &&Sums| {
        (1..=usize::from(u16::MAX)).contains(&sums.by.as_str().len()) && sums.all.len() <= DIMENSIONS_MAX
    };
    let Some(sums) = sums.filter(fits) else {
        bytes.extend(0_u16.to_le_bytes());
        return;
    };
    let name = sums.by.as_str();
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend(name.as_bytes());
    bytes.extend((sums.all.len() as u32).to_le_bytes());
    bytes.extend(sums.all.iter().chain(&sums.last).flat_map(|value| value.to_le_bytes()));
}

fn decode_sums(rest: &mut &[u8]) -> Option<Option<Sums>> {
    let name_bytes = usize::from(u16::from_le_bytes(take(rest)?));
    if name_bytes == 0 {
        return Some(None);
    }
    let name = std::str::from_utf8(rest.split_off(..name_bytes)?).ok()?;
    let dimensions = u32::from_le_bytes(take(rest)?) as usize;
    if DIMENSIONS_MAX < dimensions {
        return None;
    }
    let mut vector = || (0..dimensions).map(|_| take(rest).map(f32::from_le_bytes)).collect::<Option<Vec<f32>>>();
    Some(Some(Sums::new(EmbedderId::new(name), vector()?, vector()?)))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::remark::{Meaning, Remark, Speaker};
    use super::*;
    use crate::language::Tongue;

    fn sketch(texts: &[String], vector: Option<Vec<f32>>) -> Sketch {
        let mut sketch = Sketch::default();
        for text in texts {
            let meaning = vector.clone().map(|vector| Meaning::new(EmbedderId::new("test"), vector));
            let remark = Remark::read(text, Tongue::English).meaning(meaning);
            sketch.take_in(&remark, Speaker::User);
            sketch.take_in(&remark, Speaker::Assistant);
        }
        sketch
    }

    #[test]
    fn another_form_is_no_sketch() {
        let mut bytes = Sketch::default().encode();
        assert_eq!(Sketch::decode(&bytes), Some(Sketch::default()));
        bytes[0] = Sketch::FORM + 1;
        let (body, _) = bytes.split_last_chunk::<8>().expect("a sum");
        let sum = xxh3_64(body).to_le_bytes();
        assert_eq!(Sketch::decode(&[body, &sum].concat()), None);
        assert_eq!(Sketch::decode(&[]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(
            texts in prop::collection::vec("\\PC{0,80}", 0..6),
            vector in prop::option::of(prop::collection::vec(-1.0_f32..1.0, 0..20)),
        ) {
            let sketch = sketch(&texts, vector);
            prop_assert_eq!(Sketch::decode(&sketch.encode()), Some(sketch));
        }

        #[test]
        fn damage_is_found(texts in prop::collection::vec("[a-z ]{1,40}", 1..4), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let bytes = sketch(&texts, Some(vec![0.5; 4])).encode();
            let at = at.index(bytes.len());
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            prop_assert_eq!(Sketch::decode(&damaged), None);
            prop_assert_eq!(Sketch::decode(&bytes[..at]), None);
        }

        #[test]
        fn any_bytes_can_be_tried(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let sum = xxh3_64(&bytes).to_le_bytes();
            let _ = Sketch::decode(&bytes);
            let _ = Sketch::decode(&[bytes, sum.to_vec()].concat());
        }
    }
}
