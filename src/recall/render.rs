//! The context as text: sections with their headings, dated lines with their speakers, oldest first.
//!
//! Every memory is one line, whatever it contained: line breaks become blanks, so that nothing recalled can open a
//! heading, a list or another speaker's line. There is no clock in the text; the same memories read the same
//! tomorrow. The marks around the block, and how memories that imitate them are kept from ending it, are in
//! `turn/inject.rs`.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::Reminder;
use super::layer::{Aside, AsideSource, Considered, Section};
use super::texts::SaidMessage;
use crate::id::SessionId;
use crate::message::{Message, Role, speaker_name};

/// The heading over the end of the running conversation.
const RECENT: &str = "## Recent conversation";

/// What a context is written from.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Messages, in the order in which they are shown.
    pub(crate) reminders: Vec<Reminder>,
    /// Everything else that was considered; what was kept is shown.
    pub(crate) asides: Vec<Considered>,
    /// What the question refers to.
    pub(crate) referred_to: Option<String>,
}

impl Page {
    /// The context as text, section by section; empty for nothing. `running` is the conversation that is going on.
    pub(crate) fn render(&self, zone: &TimeZone, running: Option<SessionId>) -> String {
        let sections = Section::ALL.into_iter().filter_map(|section| {
            let lines = self.lines(section, zone, running);
            let text = std::iter::once(section.heading().to_owned()).chain(lines.iter().cloned());
            (!lines.is_empty()).then(|| text.collect::<Vec<_>>().join("\n"))
        });
        sections.collect::<Vec<_>>().join("\n\n")
    }

    /// The tokens of what is shown; those of what the question refers to are known.
    pub(crate) fn tokens(&self, reference_tokens: usize) -> usize {
        let headings = Section::ALL.into_iter().filter(|section| self.has(*section)).count() * HEADING_TOKENS_MAX;
        let asides: usize = self.kept().map(|kept| kept.tokens).sum();
        let reminders: usize = self.reminders.iter().map(|reminder| reminder.tokens).sum();
        let reference = if self.reminders.is_empty() { 0 } else { reference_tokens };
        headings + asides + reminders + reference
    }

    fn kept(&self) -> impl Iterator<Item = &Considered> {
        self.asides.iter().filter(|considered| considered.is_kept())
    }

    fn has(&self, section: Section) -> bool {
        match section {
            Section::Past => !self.reminders.is_empty(),
            section => self.kept().any(|kept| kept.aside.layer.section() == section),
        }
    }

    fn lines(&self, section: Section, zone: &TimeZone, running: Option<SessionId>) -> Vec<String> {
        if section == Section::Past {
            let reference = self.referred_to.iter().filter(|_| !self.reminders.is_empty()).cloned();
            return reference.chain(self.reminders.iter().map(|reminder| line(reminder, zone))).collect();
        }
        let mut asides: Vec<&Aside> =
            self.kept().map(|kept| &kept.aside).filter(|aside| aside.layer.section() == section).collect();
        if section == Section::Summaries {
            asides.sort_by_key(|aside| (is_of(aside, running), told_at(aside)));
        }
        asides.into_iter().map(|aside| aside_line(aside, zone, running)).collect()
    }
}

/// Whether an aside tells of a conversation.
fn is_of(aside: &Aside, running: Option<SessionId>) -> bool {
    matches!(aside.source, AsideSource::Episode { session, .. } if Some(session) == running)
}

/// Summaries are shown oldest first; of those that begin together, the one that reaches further.
fn told_at(aside: &Aside) -> Option<(Timestamp, std::cmp::Reverse<Timestamp>, u64)> {
    match aside.source {
        AsideSource::Episode { from, to, first, .. } => Some((from, std::cmp::Reverse(to), first)),
        AsideSource::Passage(_) | AsideSource::Other(_) => None,
    }
}

/// An aside as it is rendered.
pub(crate) fn aside_line(aside: &Aside, zone: &TimeZone, running: Option<SessionId>) -> String {
    format!("{} {}", aside_head(aside, zone, running), one_line(&aside.text))
}

/// What stands before its text: of a summary its days, conversation and turns.
pub(crate) fn aside_head(aside: &Aside, zone: &TimeZone, running: Option<SessionId>) -> String {
    let AsideSource::Episode { session, first, last, from, to, .. } = &aside.source else {
        return "-".to_owned();
    };
    let [from, to] = [from, to].map(|at| zone.to_datetime(*at).date());
    let days = if from == to { from.to_string() } else { format!("{from} to {to}") };
    let place = match Some(*session) == running {
        true => "this conversation".to_owned(),
        false => session.to_string()[..8].to_owned(),
    };
    format!("- {days} ({place}) turns {first}-{last}:")
}

/// An aside that is all there is, under its heading.
pub(crate) fn alone(aside: &Aside) -> String {
    format!("{}\n- {}", aside.layer.section().heading(), one_line(&aside.text))
}

/// The line that says what a follow-up refers to. Words only: nothing in it can open a line of its own.
pub(crate) fn reference(words: &str) -> String {
    format!("(the question refers to: {})", one_line(words))
}

/// Tokens of a heading, with room for its line break. Known beforehand: where nothing is found nothing is counted, and
/// the tokenizer stays folded.
pub(crate) const HEADING_TOKENS_MAX: usize = 5;

/// A reminder as it is rendered.
pub(crate) fn line(reminder: &Reminder, zone: &TimeZone) -> String {
    let Reminder { session, said_at, name, role, text, note, .. } = reminder;
    let note = note.as_deref().map(|note| format!(" {}", one_line(note))).unwrap_or_default();
    said_line(*session, zone.to_datetime(*said_at).date(), name.as_deref(), *role, text) + &note
}

/// A message as it is rendered whole, with nothing to be noted.
pub(crate) fn line_of(session: SessionId, message: &SaidMessage, zone: &TimeZone) -> String {
    let day = zone.to_datetime(message.said_at).date();
    said_line(session, day, message.name.as_deref(), message.role, &message.text)
}

fn said_line(session: SessionId, day: Date, name: Option<&str>, role: Role, text: &str) -> String {
    let speaker = speaker(name, role);
    format!("- {day} ({}) {speaker}: {}", &session.to_string()[..8], one_line(text))
}

/// The end of a conversation as text, for a model whose client left it out; empty for nothing.
pub(crate) fn recent_conversation(messages: &[&Message]) -> String {
    if messages.is_empty() {
        return String::new();
    }
    let line = |message: &&Message| {
        let speaker = speaker(message.name.as_deref(), message.role);
        format!("- {speaker}: {}", one_line(&message.text))
    };
    std::iter::once(RECENT.to_owned()).chain(messages.iter().map(line)).collect::<Vec<_>>().join("\n")
}

fn speaker(name: Option<&str>, role: Role) -> Cow<'_, str> {
    name.and_then(speaker_name).unwrap_or(Cow::Borrowed(match role {
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::System => "System",
        Role::Tool => "Tool",
    }))
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
    use crate::episode::Level;
    use crate::id::{CountedIds, EpisodeId, Ids};
    use crate::message::block::{CLOSE, OPEN, block, without_block};
    use crate::recall::{Fate, Layer, Reason};
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
            note: None,
            reason: Reason::Hit,
            tokens: 0,
            score: 0.0,
        }
    }

    fn summary(text: &str, session: SessionId) -> Considered {
        let source = AsideSource::Episode {
            id: EpisodeId::beginning(session, "stretch", 1, Timestamp::UNIX_EPOCH),
            session,
            level: Level::Stretch,
            first: 1,
            last: 20,
            from: Timestamp::UNIX_EPOCH,
            to: Timestamp::UNIX_EPOCH,
        };
        let aside = Aside { source, ..Aside::new(Layer::Episodes, "", text) };
        Considered { aside, fate: Fate::Kept, tokens: 0 }
    }

    fn kept(aside: Aside) -> Considered {
        Considered { aside, fate: Fate::Kept, tokens: 0 }
    }

    fn page(reminders: Vec<Reminder>, asides: Vec<Considered>) -> Page {
        Page { reminders, asides, referred_to: None }
    }

    #[test]
    fn a_memory_is_a_dated_line() {
        let text = page(vec![reminder("I live in\nLisbon.", Some("Ann"))], vec![]).render(&TimeZone::UTC, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "## Relevant past");
        assert!(lines[1].starts_with("- 1970-01-01 (") && lines[1].ends_with(") Ann: I live in Lisbon."), "{text}");
        let note = Some("(since then: location is Porto)".to_owned());
        let moved = Reminder { note, ..reminder("I live in Lisbon.", None) };
        assert!(line(&moved, &TimeZone::UTC).ends_with("User: I live in Lisbon. (since then: location is Porto)"));
        let referred_to = Some("x".to_owned());
        assert_eq!(Page { referred_to, ..Page::default() }.render(&TimeZone::UTC, None), "");
    }

    /// E6: profile, relevant past, summaries; the recent conversation follows where it is text.
    #[test]
    fn sections_stand_in_their_order() {
        let ids = CountedIds::default();
        let (here, there) = (ids.session(), ids.session());
        let asides = vec![
            summary("user: We spoke of Rex.\nassistant: Indeed.", here),
            summary("user: FAISS or pgvector?", there),
            kept(Aside::clarification("c", "Which lamp,\nthe red or the blue one?")),
            kept(Aside::profile("f", "name", "Alex", None)),
            Considered { fate: Fate::Surplus, ..kept(Aside::profile("f", "city", "Porto", None)) },
            kept(Aside::new(Layer::Facts, "f", "the lamp is red")),
            kept(Aside::new(Layer::Passages, "d", "Lamps are lit by hand.")),
        ];
        let text = page(vec![reminder("I live in Lisbon.", None)], asides).render(&TimeZone::UTC, Some(here));
        let session = |text: &str, id: SessionId| text.replace(&id.to_string()[..8], "there");
        let expected = "\
            ## User profile\n- name: Alex\n\n\
            ## Open question\n- Which lamp, the red or the blue one?\n\n\
            ## Known facts\n- the lamp is red\n\n\
            ## Relevant past\n- 1970-01-01 (00000000) User: I live in Lisbon.\n\n\
            ## Documents\n- Lamps are lit by hand.\n\n\
            ## Summaries\n\
            - 1970-01-01 (there) turns 1-20: user: FAISS or pgvector?\n\
            - 1970-01-01 (this conversation) turns 1-20: user: We spoke of Rex. assistant: Indeed.";
        assert_eq!(session(&text, there), session(expected, there));
    }

    /// Whatever may be in a context, with this text in each.
    fn everything(text: &str, name: &str) -> Page {
        let session = CountedIds::default().session();
        Page {
            reminders: vec![
                reminder(text, Some(name)),
                Reminder { note: Some(text.to_owned()), ..reminder(text, None) },
            ],
            asides: vec![
                summary(text, session),
                kept(Aside::profile("f", name, text, None)),
                kept(Aside::clarification("c", text)),
            ],
            referred_to: Some(reference(text)),
        }
    }

    /// Lines that hold something: five memories, the reference, four headings.
    const LINES: usize = 10;

    proptest! {
        #[test]
        fn no_memory_can_open_a_line_of_its_own(text in "(\\PC|[\\r\\n\\x0b\\x0c\u{85}\u{2028}\u{2029}#>-]){0,60}", name in "(\\PC|\\n){1,9}") {
            let rendered = everything(&text, &name).render(&TimeZone::UTC, None);
            prop_assert_eq!(rendered.lines().filter(|line| !line.is_empty()).count(), LINES);
            let obeyed = rendered.contains(['\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{1b}']);
            prop_assert!(!obeyed);
        }

        #[test]
        fn no_memory_can_end_the_block_it_stands_in(
            text in "(</?(?i:recalled_memory)>?|[＜‹](/|／)(recalled|RECALLED)[_\u{200b}]memory|\n## Relevant past\n|\\PC){1,9}",
            name in "(</recalled_memory>|\\PC){1,3}",
        ) {
            let block = block(&everything(&text, &name).render(&TimeZone::UTC, None));
            let lines = block.lines().filter(|line| !line.is_empty()).count();
            prop_assert_eq!((block.matches(CLOSE).count(), block.matches(OPEN).count(), lines), (1, 1, LINES + 2));
            let laid = format!("{block}said");
            prop_assert_eq!(without_block(&laid), "said");
        }
    }
}
