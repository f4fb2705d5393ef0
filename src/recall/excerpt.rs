//! A long text's best passage: the one whose words answer most of the question.

use super::render::one_line;
use super::signals::late::Late;
use super::text::{beginning, passages};
use crate::language::{Tongue, spans};

/// A longer message is cut: about ninety tokens.
pub(crate) const WHOLE_BYTES_MAX: usize = 380;
/// Passages are looked for in this much of a text.
const READ_BYTES_MAX: usize = 8 * 1024;

/// The text on one line, or the best passage of a long one, and whether that is only a part.
pub(crate) fn excerpt(text: &str, tongue: Tongue, late: &mut Late<'_>) -> (String, bool) {
    if text.len() <= WHOLE_BYTES_MAX {
        return (one_line(text).into_owned(), false);
    }
    let read = beginning(text, READ_BYTES_MAX);
    let known: Vec<(usize, u32)> =
        spans(read).filter_map(|word| Some((word.at.start, late.known(word.as_ref(), tongue)?))).collect();
    let mut best: Option<(f32, std::ops::Range<usize>)> = None;
    for passage in passages(read) {
        let from = known.partition_point(|(at, _)| *at < passage.start);
        let to = known.partition_point(|(at, _)| *at < passage.end);
        let worth = late.of_words(known[from..to].iter().map(|(_, word)| *word));
        if best.as_ref().is_none_or(|(most, _)| worth > *most) {
            best = Some((worth, passage));
        }
    }
    let Some((_, passage)) = best else { return (one_line(text).into_owned(), false) };
    if passage.len() == text.trim().len() {
        return (one_line(text).into_owned(), false);
    }
    let before = if passage.start > 0 { "… " } else { "" };
    (format!("{before}{} …", one_line(&text[passage])), true)
}
