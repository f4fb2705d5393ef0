//! Portions: which texts go in one request.

/// Cuts texts into portions of at most so many texts and so many bytes, in order. A text that is too long by
/// itself goes alone.
pub(super) fn batches<'a>(
    texts: impl Iterator<Item = &'a str>,
    texts_max: usize,
    bytes_max: usize,
) -> Vec<Vec<&'a str>> {
    let mut batches: Vec<Vec<&str>> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        bytes += text.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < texts_max && bytes <= bytes_max => batch.push(text),
            _ => {
                bytes = text.len();
                batches.push(vec![text]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: &str, expected: &str) {
        let batches = batches(texts.split_whitespace(), 3, 6);
        assert_eq!(batches.iter().map(|batch| batch.join(" ")).collect::<Vec<_>>().join(" | "), expected);
    }

    #[test]
    fn a_request_has_bounds_in_texts_and_bytes() {
        check("", "");
        check("a b c", "a b c");
        check("a b c d", "a b c | d");
        check("aaa bbb c", "aaa bbb | c");
        check("aaaaaaa b", "aaaaaaa | b");
        check("a bbbbbbbbb c", "a | bbbbbbbbb | c");
    }
}
