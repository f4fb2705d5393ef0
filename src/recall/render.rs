//! The context as text: dated lines with their speakers, oldest first.
//!
//! Every memory is one line, whatever it contained: line breaks become blanks, so that nothing recalled can open a
//! heading, a list or another speaker's line. There is no clock in the text; the same memories read the same
//! tomorrow. The marks around the block, and how memories that imitate them are kept from ending it, are in
//! `turn/inject.rs`.

use std::borrow::Cow;

use jiff::tz::TimeZone;

use super::Reminder;
use crate::message::{Message, Role};

/// The heading over what was found.
const HEADING: &str = "## Relevant past";
/// The heading over the end of the running conversation.
const RECENT: &str = "## Recent conversation";

/// The context of these reminders, in their order, and what the question refers to; empty for none.
pub(crate) fn render(reminders: &[Reminder], referred_to: Option<&str>, zone: &TimeZone) -> String {
    if reminders.is_empty() {
        return String::new();
    }
    let lines = reminders.iter().map(|reminder| line(reminder, zone));
    let head = std::iter::once(HEADING.to_owned()).chain(referred_to.map(str::to_owned));
    head.chain(lines).collect::<Vec<_>>().join("\n")
}

/// The line that says what a follow-up refers to. Words only: nothing in it can open a line of its own.
pub(crate) fn reference(words: &str) -> String {
    format!("(the question refers to: {})", one_line(words))
}

/// Tokens of the heading, with room for its line break. Known beforehand: where nothing is found nothing is counted, and
/// the tokenizer stays folded.
pub(crate) const HEADING_TOKENS_MAX: usize = 5;

/// A reminder as it is rendered.
pub(crate) fn line(reminder: &Reminder, zone: &TimeZone) -> String {
    let day = zone.to_datetime(reminder.said_at).date();
    let session = &reminder.session.to_string()[..8];
    let speaker = reminder.name.as_deref().map_or_else(|| Cow::Borrowed(speaker(reminder.role)), one_line);
    format!("- {day} ({session}) {speaker}: {}", one_line(&reminder.text))
}

/// The end of a conversation as text, for a model whose client left it out; empty for nothing.
pub(crate) fn recent_conversation(messages: &[&Message]) -> String {
    if messages.is_empty() {
        return String::new();
    }
    let line = |message: &&Message| {
        let speaker = message.name.as_deref().map_or_else(|| Cow::Borrowed(speaker(message.role)), one_line);
        format!("- {speaker}: {}", one_line(&message.text))
    };
    std::iter::once(RECENT.to_owned()).chain(messages.iter().map(line)).collect::<Vec<_>>().join("\n")
}

fn speaker(role: Role) -> &'static str {
    match role {
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::System => "System",
        Role::Tool => "Tool",
    }
}

/// Plain text with single blanks, as nearly all short messages are.
fn is_one_line(text: &str) -> bool {
    let bytes = text.as_bytes();
    let plain = |(at, byte): (usize, &u8)| match byte {
        b' ' => at > 0 && at + 1 < bytes.len() && bytes[at - 1] != b' ',
        byte => (0x21..0x7f).contains(byte),
    };
    bytes.iter().enumerate().all(plain)
}

/// Words with single blanks between them, and no characters that a terminal or a model would obey.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if is_one_line(text) {
        return Cow::Borrowed(text);
    }
    let visible = |c: &char| !c.is_control() || c.is_whitespace();
    let words: Vec<String> = text
        .split(|c: char| c.is_whitespace() || matches!(c, '\u{2028}' | '\u{2029}'))
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().filter(visible).collect::<String>())
        .filter(|word| !word.is_empty())
        .collect();
    Cow::Owned(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CountedIds, Ids};
    use crate::message::block::{CLOSE, OPEN, block, without_block};
    use crate::recall::Reason;
    use jiff::Timestamp;
    use proptest::prelude::*;

    fn reminder(text: &str, name: Option<&str>) -> Reminder {
        let ids = CountedIds::default();
        Reminder {
            message: ids.turn(Timestamp::UNIX_EPOCH).message(0),
            session: ids.session(),
            role: Role::User,
            name: name.map(str::to_owned),
            said_at: Timestamp::UNIX_EPOCH,
            text: text.to_owned(),
            excerpt: false,
            reason: Reason::Hit,
            tokens: 0,
            score: 0.0,
        }
    }

    #[test]
    fn a_memory_is_a_dated_line() {
        let text = render(&[reminder("I live in\nLisbon.", Some("Ann"))], None, &TimeZone::UTC);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], HEADING);
        assert!(lines[1].starts_with("- 1970-01-01 (") && lines[1].ends_with(") Ann: I live in Lisbon."), "{text}");
        assert_eq!(render(&[], Some("x"), &TimeZone::UTC), "");
        assert!(crate::tokens::count(HEADING) < HEADING_TOKENS_MAX);
    }

    proptest! {
        #[test]
        fn no_memory_can_open_a_line_of_its_own(text in "(\\PC|[\\r\\n\\x0b\\x0c\u{85}\u{2028}\u{2029}#>-]){0,60}", name in "(\\PC|\\n){1,9}") {
            let referred_to = reference(&text);
            let rendered = render(&[reminder(&text, Some(&name)), reminder(&text, None)], Some(&referred_to), &TimeZone::UTC);
            prop_assert_eq!(rendered.lines().count(), 4);
            let obeyed = rendered.contains(['\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{1b}']);
            prop_assert!(!obeyed);
        }

        #[test]
        fn no_memory_can_end_the_block_it_stands_in(
            text in "(</?(?i:recalled_memory)>?|[＜‹](/|／)(recalled|RECALLED)[_\u{200b}]memory|\n## Relevant past\n|\\PC){1,9}",
            name in "(</recalled_memory>|\\PC){1,3}",
        ) {
            let referred_to = reference(&text);
            let rendered = render(&[reminder(&text, Some(&name)), reminder(&text, None)], Some(&referred_to), &TimeZone::UTC);
            let block = block(&rendered);
            prop_assert_eq!((block.matches(CLOSE).count(), block.matches(OPEN).count(), block.lines().count()), (1, 1, 7));
            let laid = format!("{block}said");
            prop_assert_eq!(without_block(&laid), "said");
        }
    }
}
