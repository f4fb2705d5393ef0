//! The bytes of a turn's vectors: one for each row, in their order.

use crate::kernel::{Bytes, quantise};

/// Puts vectors into bytes. A vector that says nothing takes only its place.
pub(crate) fn encode(vectors: &[Vec<f32>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for vector in vectors {
        match quantise(vector) {
            Some(vector) => {
                bytes.extend(vector.scale.to_le_bytes());
                bytes.extend(vector.bytes.iter().map(|value| *value as u8));
            }
            None => {
                bytes.extend(0.0_f32.to_le_bytes());
                bytes.resize(bytes.len() + vector.len(), 0);
            }
        }
    }
    bytes
}

/// Reads what [`encode`] wrote; `None` for anything else.
pub(crate) fn decode(bytes: &[u8], dimensions: usize) -> Option<Vec<Option<Bytes>>> {
    let each = dimensions + 4;
    if !bytes.len().is_multiple_of(each) {
        return None;
    }
    Some(bytes.chunks_exact(each).map(decode_one).collect())
}

fn decode_one(part: &[u8]) -> Option<Bytes> {
    let (scale, bytes) = part.split_at_checked(4)?;
    let scale = f32::from_le_bytes(scale.try_into().ok()?);
    let usable = scale.is_finite() && scale > 0.0;
    // -128 has no counterpart above zero and is never written.
    usable.then(|| Bytes { bytes: bytes.iter().map(|byte| (*byte as i8).max(-127)).collect(), scale })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vectors_survive_their_bytes(vectors in proptest::collection::vec(proptest::collection::vec(-1.0_f32..1.0, 8), 0..4)) {
            let expected: Vec<Option<Bytes>> = vectors.iter().map(|vector| quantise(vector)).collect();
            prop_assert_eq!(decode(&encode(&vectors), 8), Some(expected));
        }

        #[test]
        fn any_bytes_can_be_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            decode(&bytes, 8);
        }
    }
}
