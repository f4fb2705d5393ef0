//! What recalld laid before the model, read again: dated lines of other conversations, and the end of this one.

use crate::message::Role;
use crate::message::block;

/// A line of what is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remembered<'a> {
    pub(super) by: Role,
    pub(super) text: &'a str,
    /// Where it was said; `None` for the end of the running conversation.
    pub(super) source: Option<Source>,
}

/// Where something was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) day: String,
    /// The beginning of the conversation's id.
    pub(super) session: String,
    /// The speaker's name, if it is a person with one.
    pub(super) name: Option<String>,
}

/// The headings over lines that somebody said, word for word. What stands under others was put together from them.
const SAID: [&str; 2] = ["## Relevant past", "## Recent conversation"];

/// What a message hands us in a block, in its order.
pub(super) fn remembered(text: &str) -> Vec<Remembered<'_>> {
    let mut said = true;
    let lines = block::inside(text).into_iter().flat_map(str::lines).filter(move |line| {
        if line.starts_with("## ") {
            said = SAID.contains(line);
        }
        said
    });
    lines.filter_map(line).collect()
}

fn line(line: &str) -> Option<Remembered<'_>> {
    let line = line.strip_prefix("- ")?;
    let (source, rest) = match dated(line) {
        Some((day, session, rest)) => (Some((day, session)), rest),
        None => (None, line),
    };
    let (speaker, text) = rest.split_once(": ")?;
    let (by, name) = match speaker {
        "User" => (Role::User, None),
        "Assistant" => (Role::Assistant, None),
        "System" | "Tool" => return None,
        name => (Role::User, Some(name.to_owned())),
    };
    let source = source.map(|(day, session)| Source { day: day.to_owned(), session: session.to_owned(), name });
    Some(Remembered { by, text, source })
}

/// `2026-01-01 (550e8400) …`
fn dated(line: &str) -> Option<(&str, &str, &str)> {
    let (day, rest) = line.split_once(" (")?;
    let (session, rest) = rest.split_once(") ")?;
    let is_day = day.len() >= 10 && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_session = session.len() == 8 && session.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_day && is_session).then_some((day, session, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_their_source() {
        let text = block::block(
            "## Relevant past\n- 2026-01-01 (550e8400) User: I live in Lisbon.\n\
             - 2026-01-02 (550e8400) Ann: So: do I.\n- 2026-01-02 (550e8400) Tool: 42\nnoise\n\n\
             ## Summaries\n- 2026-01-01 (this conversation) turns 1-20: user: Rex.\n\n\
             ## Recent conversation\n- Assistant: Nice.",
        );
        let lines = remembered(&text);
        let told: Vec<_> = lines.iter().map(|line| (line.by, line.text)).collect();
        assert_eq!(told, [(Role::User, "I live in Lisbon."), (Role::User, "So: do I."), (Role::Assistant, "Nice.")]);
        let source = lines[1].source.as_ref().expect("a source");
        assert_eq!((source.day.as_str(), source.name.as_deref()), ("2026-01-02", Some("Ann")));
        assert_eq!((lines[0].source.as_ref().map(|s| s.session.as_str()), &lines[2].source), (Some("550e8400"), &None));
        assert!(remembered("- 2026-01-01 (550e8400) User: not in a block").is_empty());
    }
}
