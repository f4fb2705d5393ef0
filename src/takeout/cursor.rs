//! Where an export goes on: behind a line that was read.

use std::fmt;

use crate::id::{DocumentId, EpisodeId, SessionId, TopicId};

/// A place in an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Whose part of it.
    pub user: String,
    /// Where in that.
    pub position: Position,
}

/// The last line that was read of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// A topic.
    Topic(TopicId),
    /// Something that is known of the user: all of that is told again.
    Facts,
    /// A conversation, or one of its episodes; its turns are still to come.
    Session(SessionId),
    /// A turn, by its number.
    Turn(SessionId, u64),
    /// An episode that outlived its conversation.
    Gone(EpisodeId),
    /// A document of the tenant, all of it; `None` before the first.
    Document(Option<DocumentId>),
}

impl Cursor {
    /// Reads what its `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        let (id, rest) = rest.split_once(':')?;
        let (number, user) = if kind == "turn" { rest.split_once(':')? } else { ("", rest) };
        let position = match kind {
            "topic" => Position::Topic(TopicId::parse(id)?),
            "facts" if id.is_empty() => Position::Facts,
            "document" if id.is_empty() => Position::Document(None),
            "document" => Position::Document(Some(DocumentId::parse(id)?)),
            "session" => Position::Session(SessionId::parse(id)?),
            "turn" => Position::Turn(SessionId::parse(id)?, number.parse().ok()?),
            "gone" => Position::Gone(EpisodeId::parse(id)?),
            _ => return None,
        };
        Some(Self { user: user.to_owned(), position })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = &self.user;
        match self.position {
            Position::Topic(id) => write!(f, "topic:{id}:{user}"),
            Position::Facts => write!(f, "facts::{user}"),
            Position::Document(None) => write!(f, "document::{user}"),
            Position::Document(Some(id)) => write!(f, "document:{id}:{user}"),
            Position::Session(id) => write!(f, "session:{id}:{user}"),
            Position::Turn(id, number) => write!(f, "turn:{id}:{number}:{user}"),
            Position::Gone(id) => write!(f, "gone:{id}:{user}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let id = "6f1c9a52-3a5b-4b53-8a86-1f6dfd4f2c11";
        for text in [
            format!("topic:{id}:a:b"),
            format!("session:{id}:ann"),
            format!("turn:{id}:12:Zoë"),
            format!("gone:{id}:~x"),
            "facts::ann".to_owned(),
            "document::".to_owned(),
            format!("document:{id}:"),
        ] {
            assert_eq!(Cursor::parse(&text).map(|cursor| cursor.to_string()), Some(text));
        }
        for wrong in ["", "turn", "turn:x:1:ann", "turn:6f1c9a52-3a5b-4b53-8a86-1f6dfd4f2c11:x:ann", "fact:1:ann"] {
            assert_eq!(Cursor::parse(wrong), None, "{wrong}");
        }
    }
}
