//! Names that were nearly said.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::language::words;

/// Words shorter than this must be right: a letter more or less makes another word of them.
const CHARS_MIN: usize = 4;
/// From here on two letters may be wrong.
const LONG_CHARS: usize = 8;

/// Whether these words are nearly those of a label: each is nearly one of its own, or all of them together, however cut.
pub(super) fn nearly(said: &[&str], label: &str) -> bool {
    let label: Vec<String> = words(label).map(|word| plain(&word)).collect();
    let said: Vec<String> = said.iter().map(|word| plain(word)).collect();
    let (whole, joined) = (label.concat(), said.concat());
    let each = said.iter().all(|word| label.iter().any(|own| is_near(word, own)));
    !said.is_empty() && (each || is_near(&joined, &whole))
}

/// A word without accents.
pub(super) fn plain(word: &str) -> String {
    match word.is_ascii() {
        true => word.to_owned(),
        false => word.nfd().filter(|c| !is_combining_mark(*c)).collect(),
    }
}

fn is_near(a: &str, b: &str) -> bool {
    let chars = a.chars().count().min(b.chars().count());
    let wrong_max = if chars < CHARS_MIN { 0 } else { 1 + usize::from(chars >= LONG_CHARS) };
    a == b || (wrong_max > 0 && distance(a, b) <= wrong_max)
}

/// How many letters must change, go, come or swap with their neighbour to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, _) => j,
                (_, 0) => i,
                _ => {
                    let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let swaps = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    let swapped = if swaps { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                    changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(swapped)
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: &str, label: &str, expected: bool) {
        assert_eq!(nearly(&said.split(' ').collect::<Vec<_>>(), label), expected, "{said} / {label}");
    }

    #[test]
    fn a_slip_of_the_finger_is_forgiven() {
        check("amstredam", "Amsterdam", true);
        check("amsterdm", "Amsterdam", true);
        check("cappucino", "Cappuccino", true);
        check("blu", "Blue", false);
        check("blu mug", "Blue mug", true);
        check("bleu mug", "Blue mug", true);
        check("bluemug", "Blue mug", true);
        check("creme brulee", "Crème brûlée", true);
    }

    #[test]
    fn another_word_is_not() {
        check("red", "Bed", false);
        check("house", "Mouth", false);
        check("paris", "London", false);
    }
}
