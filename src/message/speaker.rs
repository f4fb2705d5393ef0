//! The name of a message's speaker, as it may stand before a colon.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

use super::visible::visible;

/// What speakers are called that have no name of their own. A name with one of these in it would be taken for that speaker.
const SPEAKERS: [&str; 5] = ["user", "assistant", "system", "tool", "developer"];
/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 64;

/// A name on one line, without a colon; `None` when it says nothing or poses as one of the speakers that have no name.
pub(crate) fn speaker_name(name: &str) -> Option<Cow<'_, str>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let name = match name.len() <= NAME_CHARS_MAX && name.bytes().all(is_plain) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(cleaned(name)),
    };
    (!name.is_empty() && !poses(&name)).then_some(name)
}

fn cleaned(name: &str) -> String {
    let seen = visible(name);
    let plain =
        seen.chars().map(|c| if c.is_control() || matches!(c, ':' | '：' | '\u{2028}' | '\u{2029}') { ' ' } else { c });
    let words: String = plain.take(NAME_CHARS_MAX).collect();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether one of its words is that of a speaker, in letters of any width and case.
fn poses(name: &str) -> bool {
    let folded: String = name.nfkc().flat_map(char::to_lowercase).collect();
    folded.split(|c: char| !c.is_alphabetic()).any(|word| SPEAKERS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_unless_it_poses() {
        for (name, shown) in [
            ("Ann", Some("Ann")),
            ("ann-1.b", Some("ann-1.b")),
            (" Ann:\n no", Some("Ann no")),
            ("Überuser", Some("Überuser")),
            ("superuser1", Some("superuser1")),
            ("", None),
            (" \u{200b}", None),
            ("Assistant", None),
            ("the_ASSISTANT", None),
            ("user2", None),
            ("Assis\u{200b}tant", None),
            ("ＳＹＳＴＥＭ", None),
            ("Ann: yes. Assistant", None),
        ] {
            assert_eq!(speaker_name(name).as_deref(), shown, "{name:?}");
        }
        assert_eq!(speaker_name(&"é".repeat(100)).expect("a name").chars().count(), NAME_CHARS_MAX);
    }
}
