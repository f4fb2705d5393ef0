//! Pieces: a word that is not known as a whole, taken apart into the longest pieces that are (WordPiece).

/// What stands before a piece inside a word.
const CONTINUED: &[u8] = b"##";

/// A word with more characters is no word and is not taken apart.
const WORD_CHARACTERS_MAX: usize = 100;

/// Adds the longest known pieces of a word, from its beginning. When something is left over nothing is added and
/// it is false. No known piece has more than `piece_bytes_max` bytes, its `##` included.
pub(in super::super) fn add_pieces(
    word: &str,
    piece_bytes_max: usize,
    known: impl Fn(&[u8]) -> Option<u32>,
    found: &mut Vec<u32>,
) -> bool {
    if word.chars().nth(WORD_CHARACTERS_MAX).is_some() {
        return false;
    }
    let before = found.len();
    // The mark of a piece inside a word is written over what was read before it, so that no piece is copied.
    let mut rest = [CONTINUED, word.as_bytes()].concat();
    let (mut from, mut start) = (CONTINUED.len(), CONTINUED.len());
    while start < rest.len() {
        let ends = (start + 1..=rest.len().min(from + piece_bytes_max)).rev().filter(|&end| is_boundary(&rest, end));
        let longest = ends.into_iter().find_map(|end| Some((known(&rest[from..end])?, end)));
        let Some((piece, end)) = longest else {
            found.truncate(before);
            return false;
        };
        found.push(piece);
        (from, start) = (end - CONTINUED.len(), end);
        rest[from..start].copy_from_slice(CONTINUED);
    }
    found.len() > before
}

/// Whether UTF-8 may be cut here.
fn is_boundary(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 7] = ["un", "##aff", "##able", "##a", "ß", "##ß", "##ble"];

    #[track_caller]
    fn check(word: &str, expected: Option<&str>) {
        let known = |piece: &[u8]| KNOWN.iter().position(|known| known.as_bytes() == piece).map(|at| at as u32);
        let mut found = vec![99];
        let whole = add_pieces(word, 6, known, &mut found);
        let pieces = found[1..].iter().map(|&at| KNOWN[at as usize]).collect::<Vec<_>>().join(" ");
        assert_eq!((whole, pieces.as_str()), (expected.is_some(), expected.unwrap_or_default()), "{word}");
    }

    #[test]
    fn the_longest_piece_is_taken_first() {
        check("unaffable", Some("un ##aff ##able"));
        check("una", Some("un ##a"));
        check("ßß", Some("ß ##ß"));
    }

    #[test]
    fn what_is_left_over_spoils_the_word() {
        check("unaffx", None);
        check("xun", None);
        check("", None);
        check("unß§", None);
        check(&format!("un{}", "a".repeat(99)), None);
    }

    #[test]
    fn a_word_may_have_a_hundred_characters() {
        check(&format!("un{}", "a".repeat(98)), Some(&format!("un{}", " ##a".repeat(98))));
    }
}
