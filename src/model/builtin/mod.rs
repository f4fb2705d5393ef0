//! The built-in answerer: what recalld says when no language model is connected.
//!
//! It answers from the conversation and from what was recalled of others: it quotes what was said before that
//! shares the most telling words with the question, with its date and session when it was said elsewhere, or says
//! plainly that there is nothing. The same prompt always gets the same answer, and every answer says who is speaking.
//!
//! Reading order: [`Builtin`], `find` (what of the conversation helps), `evidence` (what was recalled), `phrase`
//! (saying so in English or Dutch), then `words`.
//!
//! **Invariant:** nothing is invented. Between its fixed sentences stand only quotes, and never quotes
//! of its own earlier answers.

mod evidence;
mod phrase;
pub mod summary;
mod words;

use std::collections::BTreeSet;

use futures_util::stream;
use jiff::Timestamp;
use serde_json::Value;

use super::{ChatModel, Ending, ModelFuture, Piece, Pieces, Prompt};
use crate::message::{Message, Role, block};
use evidence::{Remembered, Source};
use phrase::Language;
use words::{content_words, points_back};

/// What it is called.
const NAME: &str = "recalld-builtin";

/// How many words come at once when the answer is streamed.
const PIECE_WORDS: usize = 3;

/// How much of the question's weight a message must share to be worth quoting.
const SHARE_MIN: f64 = 0.2;

/// A second quote must be nearly as good as the first.
const SECOND_SHARE_OF_FIRST: f64 = 0.7;

/// The answerer for when no model is configured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Builtin;

impl ChatModel for Builtin {
    fn name(&self) -> &str {
        NAME
    }

    fn ask(&self, prompt: Prompt) -> ModelFuture<'_> {
        let text = answer(&prompt.messages);
        let words = if prompt.stream { PIECE_WORDS } else { usize::MAX };
        let end = Ending { model: Some(NAME.into()), tokens_used: None, finish_reason: Some("stop".into()) };
        let pieces = pieces(&text, words).into_iter().map(Piece::Text).chain([Piece::End(end)]);
        let pieces: Pieces = Box::pin(stream::iter(pieces.map(Ok).collect::<Vec<_>>()));
        Box::pin(async { Ok(pieces) })
    }
}

/// The answer to the last thing the user said, from what was said before it.
fn answer(messages: &[Value]) -> String {
    let (earlier, question) = conversation(messages);
    Language::of(&question).phrase(&find(&earlier, &question), &question)
}

/// Cuts a text after every so many words, so that the pieces together are the text.
fn pieces(text: &str, words: usize) -> Vec<String> {
    let words_and_spaces: Vec<&str> = text.split_inclusive(' ').collect();
    words_and_spaces.chunks(words).map(<[&str]>::concat).collect()
}

/// Something said earlier.
#[derive(Debug, Clone, PartialEq)]
struct Said {
    by: Role,
    text: String,
    /// What it is about.
    words: BTreeSet<String>,
    /// Where it was said, if not in this conversation.
    source: Option<Source>,
}

impl Said {
    fn is_question(&self) -> bool {
        self.text.trim_end().ends_with('?')
    }

    /// How well it serves as an answer. What the user said counts most; a question answers little.
    fn worth(&self) -> f64 {
        match self.by {
            Role::User if self.is_question() => 0.5,
            Role::User => 1.0,
            _ => 0.9,
        }
    }
}

/// What was said before, and the question: the last thing the user said.
fn conversation(messages: &[Value]) -> (Vec<Said>, String) {
    let read = |wire: &Value| Message::from_wire(wire.clone(), Timestamp::UNIX_EPOCH);
    let mut messages: Vec<Message> = messages.iter().filter_map(read).collect();
    let last = messages.iter().rposition(|message| message.role == Role::User);
    // What was recalled lies in the question or in the system prompt.
    let mut earlier: Vec<Said> = messages.iter().flat_map(|message| recalled(&message.text)).collect();
    let question = last.and_then(|at| messages.drain(at..).next());
    let question = question.map(|question| block::without_block(&question.text).to_owned());
    for message in messages {
        let own = message.role == Role::Assistant && phrase::is_own(&message.text);
        if own || message.text.trim().is_empty() || !matches!(message.role, Role::User | Role::Assistant) {
            continue;
        }
        let mut words = content_words(&message.text);
        // An answer is also about what was asked: "Yes, two." needs its question to be found.
        if let (Role::Assistant, Some(asked)) = (message.role, earlier.last().filter(|said| said.is_question())) {
            words.extend(asked.words.iter().cloned());
        }
        earlier.push(Said { by: message.role, text: message.text, words, source: None });
    }
    (earlier, question.unwrap_or_default())
}

/// What was recalled and is not our own earlier words.
fn recalled(text: &str) -> Vec<Said> {
    let lines = evidence::remembered(text).into_iter();
    let told = lines.filter(|line| !(line.by == Role::Assistant && phrase::is_own(line.text)));
    let said = |line: Remembered<'_>| {
        let words = content_words(line.text);
        Said { by: line.by, text: line.text.to_owned(), words, source: line.source }
    };
    told.map(said).collect()
}

/// What of the conversation helps with a question.
#[derive(Debug, PartialEq)]
enum Finding<'a> {
    /// These share its words, in the order they were said.
    Quotes(Vec<&'a Said>),
    /// It continues what the user said last.
    Continues(&'a Said),
    /// Something was said, but not about that.
    Nothing,
    /// Nothing was said yet.
    Empty,
}

fn find<'a>(earlier: &'a [Said], question: &str) -> Finding<'a> {
    let asked = content_words(question);
    let best = best_quotes(earlier, &asked, question);
    let follows_up = asked.is_empty() || points_back(question);
    match subject(earlier) {
        _ if !best.is_empty() => Finding::Quotes(best),
        Some(subject) if follows_up => Finding::Continues(subject),
        _ if earlier.is_empty() => Finding::Empty,
        _ => Finding::Nothing,
    }
}

/// The one or two earlier messages that share most of what the question is about.
fn best_quotes<'a>(earlier: &'a [Said], asked: &BTreeSet<String>, question: &str) -> Vec<&'a Said> {
    let total: f64 = asked.iter().map(|word| weight(word, earlier)).sum();
    let share = |said: &Said| {
        let shared: f64 = asked.intersection(&said.words).map(|word| weight(word, earlier)).sum();
        said.worth() * shared / total
    };
    // A question that was asked before is no answer to itself.
    let is_same = |said: &Said| said.text == question || (said.is_question() && said.words == *asked);
    let others = earlier.iter().enumerate().filter(|(_, said)| said.by != Role::User || !is_same(said));
    let mut ranked: Vec<(f64, usize, &Said)> = others.map(|(at, said)| (share(said), at, said)).collect();
    ranked.retain(|(share, ..)| *share >= SHARE_MIN);
    // Of equals the later is the more likely to still hold.
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let enough = ranked.first().map_or(0.0, |best| best.0 * SECOND_SHARE_OF_FIRST);
    ranked.retain(|(share, ..)| *share >= enough);
    ranked.truncate(2);
    ranked.sort_by_key(|(_, at, _)| *at);
    ranked.into_iter().map(|(_, _, said)| said).collect()
}

/// A word tells more the fewer messages use it.
fn weight(word: &str, earlier: &[Said]) -> f64 {
    let used_in = earlier.iter().filter(|said| said.words.contains(word)).count();
    (1.0 + earlier.len() as f64 / used_in.max(1) as f64).ln()
}

/// What the conversation was last about: the last thing the user said that stands on its own.
fn subject(earlier: &[Said]) -> Option<&Said> {
    let here = |said: &&Said| said.by == Role::User && said.source.is_none();
    let by_user = || earlier.iter().rev().filter(here);
    by_user().find(|said| !said.words.is_empty() && !points_back(&said.text)).or_else(|| by_user().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;
    use serde_json::json;

    /// Lines of `user: …` and `assistant: …`; `builtin` stands for an answer of our own.
    fn wire(conversation: &str) -> Vec<Value> {
        let mut messages = vec![json!({ "role": "system", "content": "You are helpful. Zebras are striped." })];
        for line in conversation.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (role, text) = line.split_once(": ").expect("`role: text`");
            let own = if role == "builtin" { answer(&messages) } else { String::new() };
            let role = if role == "builtin" { "assistant" } else { role };
            messages.push(json!({ "role": role, "content": format!("{text}{own}") }));
        }
        messages
    }

    fn answer_to(conversation: &str, question: &str) -> String {
        let mut messages = wire(conversation);
        messages.push(json!({ "role": "user", "content": question }));
        answer(&messages)
    }

    #[track_caller]
    fn check(conversation: &str, question: &str, expected: &str) {
        let answer = answer_to(conversation, question);
        assert!(answer.contains(expected), "{answer}");
        assert!(phrase::is_own(&answer), "it says who is speaking: {answer}");
        assert!(answer.contains("recalld serve --upstream URL"), "{answer}");
    }

    #[test]
    fn what_was_said_is_quoted() {
        let talk = "user: My name is Ann and I live in Lisbon.
                    builtin: -
                    user: My cat is called Tom.
                    assistant: What a nice name for a cat.";
        check(talk, "Where do I live?", "Earlier you said: “My name is Ann and I live in Lisbon.”");
        check(talk, "Where am I living?", "“My name is Ann and I live in Lisbon.”");
        check(talk, "Do you remember my cats?", "“My cat is called Tom.”");
    }

    #[test]
    fn a_dutch_question_gets_a_dutch_answer() {
        check("user: Ik woon in Utrecht.\n builtin: -", "Waar woon ik?", "Eerder zei je: “Ik woon in Utrecht.”");
        check("user: I live in Lisbon.", "Where do I live?", "no language model is connected");
        check("user: Ik woon in Utrecht.", "Hoe heet de hond van mijn buurman?", "geen taalmodel");
    }

    #[test]
    fn a_bare_follow_up_names_what_it_follows() {
        let talk = "user: Wat zijn de vereisten voor werken op hoogte?
                    builtin: -";
        check(talk, "Welke producten heb je daarvoor?", "werken op hoogte");
        let talk = format!("{talk}\n user: Welke producten heb je daarvoor?\n builtin: -");
        check(&talk, "En wat kosten die?", "werken op hoogte");
        check("user: Tell me about bicycles.", "Why?", "what you said before: “Tell me about bicycles.”");
        check(
            "user: How do I patch a tube?",
            "How long does that take?",
            "what you asked before: “How do I patch a tube?”",
        );
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        check("", "Where do I live?", "Nothing is remembered from before this message.");
        check("", "Waar woon ik?", "Van vóór dit bericht is niets onthouden.");
        check("user: I like tea.", "Who painted the Night Watch?", "I find nothing about that earlier");
        check("user: I like tea.", "Are zebras striped?", "I find nothing about that earlier");
    }

    #[test]
    fn it_never_quotes_itself_nor_the_same_question() {
        check("user: where am I living?\n builtin: -", "Where do I live?", "I find nothing about that earlier");
        let talk = "user: Where do I live?\n builtin: -\n user: Where do I live?\n builtin: -";
        check(talk, "Where do I live?", "I find nothing about that earlier");
    }

    #[test]
    fn an_answer_is_found_by_its_question() {
        let talk = "user: How many legs does a spider have?
                    assistant: Eight.
                    user: Thanks!";
        check(talk, "Spider legs: how many?", "An earlier answer was: “Eight.”");
    }

    #[test]
    fn what_was_said_last_wins_and_two_are_told_in_order() {
        let talk = "user: I live in Lisbon.\n user: I like tea.\n user: I live in Porto now.";
        check(talk, "Where do I live?", "“I live in Lisbon.” You also said: “I live in Porto now.”");
    }

    #[test]
    fn what_was_recalled_is_quoted_with_its_date_and_session() {
        let recalled = block::block(
            "## Relevant past\n- 2026-01-01 (550e8400) User: I live in Lisbon.\n\
             - 2026-01-02 (aaaaaaaa) Ann: My cat is called Tom.\n- 2026-01-03 (aaaaaaaa) Assistant: Earlier you said: “I",
        );
        let ask = |question: &str| format!("{recalled}{question}");
        check("", &ask("Where do I live?"), "On 2026-01-01 (session 550e8400) you said: “I live in Lisbon.”");
        check("", &ask("How is the cat called?"), "On 2026-01-02 (session aaaaaaaa) Ann said: “My cat is called Tom.”");
        check("", &ask("Who painted the Night Watch?"), "I find nothing about that earlier");
        check(
            "user: I live in Porto now.",
            &ask("Where do I live?"),
            "“I live in Lisbon.” You also said: “I live in Porto now.”",
        );
        let dutch = block::block("- 2026-01-01 (550e8400) User: Ik woon in Utrecht.");
        check("", &format!("{dutch}Waar woon ik?"), "Op 2026-01-01 (sessie 550e8400) zei je: “Ik woon in Utrecht.”");
        let system = json!({ "role": "system", "content": format!("Be kind.\n\n{}", recalled.trim_end()) });
        let told = answer(&[system, json!({ "role": "user", "content": "Where do I live?" })]);
        assert!(told.contains("“I live in Lisbon.”"), "{told}");
    }

    #[test]
    fn strange_prompts_are_answered_too() {
        assert!(phrase::is_own(&answer(&[])));
        assert!(phrase::is_own(&answer(&[json!(7), json!({ "role": "user", "content": null })])));
        let parts = json!({ "role": "user", "content": [{ "type": "text", "text": "I live in Lisbon." }] });
        let answer = answer(&[parts, json!({ "role": "user", "content": "Where do I live?" })]);
        assert!(answer.contains("“I live in Lisbon.”"), "{answer}");
    }

    #[tokio::test]
    async fn a_stream_says_the_same_in_pieces() {
        let messages = wire("user: I live in Lisbon.\n user: Where do I live?");
        let mut told = Vec::new();
        for stream in [false, true] {
            let pieces =
                Builtin.ask(Prompt { messages: messages.clone(), stream, model: None }).await.expect("an answer");
            told.push(pieces.map(|piece| piece.expect("a piece")).collect::<Vec<_>>().await);
        }
        let text = |pieces: &[Piece]| -> String {
            pieces
                .iter()
                .filter_map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None })
                .collect()
        };
        assert_eq!(text(&told[0]), text(&told[1]));
        assert_eq!(told[0].len(), 2);
        assert!(told[1].len() > 5);
        assert!(matches!(told[1].last(), Some(Piece::End(end)) if end.model.as_deref() == Some(Builtin.name())));
    }
}
