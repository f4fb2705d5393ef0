//! Saying what was found, in English or Dutch.

use std::cmp::Reverse;

use crate::language;

use super::words::content_words;
use super::{Finding, Said, Source};
use crate::message::Role;

/// How much of a message is quoted.
const QUOTE_CHARS_MAX: usize = 300;

/// The fixed sentences of one language.
#[derive(Debug)]
pub(super) struct Language {
    said: &'static str,
    asked: &'static str,
    answered: &'static str,
    also_said: &'static str,
    also_asked: &'static str,
    also_answered: &'static str,
    /// Where something was said, and how it goes on.
    elsewhere: &'static str,
    elsewhere_said: &'static str,
    elsewhere_asked: &'static str,
    elsewhere_answered: &'static str,
    elsewhere_named: &'static str,
    continues_said: &'static str,
    continues_asked: &'static str,
    unanswered: &'static str,
    nothing: &'static str,
    empty: &'static str,
    /// Who is speaking. Answers are recognised by it, so it stays as it is.
    closing: &'static str,
}

const ENGLISH: Language = Language {
    said: "Earlier you said:",
    asked: "Earlier you asked:",
    answered: "An earlier answer was:",
    also_said: "You also said:",
    also_asked: "You also asked:",
    also_answered: "Another answer was:",
    elsewhere: "On {day} (session {session})",
    elsewhere_said: "you said:",
    elsewhere_asked: "you asked:",
    elsewhere_answered: "the answer was:",
    elsewhere_named: "{name} said:",
    continues_said: "This continues what you said before:",
    continues_asked: "This continues what you asked before:",
    unanswered: "The conversation does not hold the answer yet.",
    nothing: "I find nothing about that earlier, in this conversation or another.",
    empty: "Nothing is remembered from before this message.",
    closing: "I am recalld's built-in answerer: no language model is connected. \
        Connect one with `recalld serve --upstream URL`.",
};

const DUTCH: Language = Language {
    said: "Eerder zei je:",
    asked: "Eerder vroeg je:",
    answered: "Een eerder antwoord was:",
    also_said: "Ook zei je:",
    also_asked: "Ook vroeg je:",
    also_answered: "Een ander antwoord was:",
    elsewhere: "Op {day} (sessie {session})",
    elsewhere_said: "zei je:",
    elsewhere_asked: "vroeg je:",
    elsewhere_answered: "was het antwoord:",
    elsewhere_named: "zei {name}:",
    continues_said: "Dit gaat verder op wat je eerder zei:",
    continues_asked: "Dit gaat verder op wat je eerder vroeg:",
    unanswered: "Het antwoord staat nog niet in dit gesprek.",
    nothing: "Daarover vind ik niets eerder, in dit gesprek of een ander.",
    empty: "Van vóór dit bericht is niets onthouden.",
    closing: "Ik ben de ingebouwde beantwoorder van recalld: er is geen taalmodel verbonden. \
        Verbind er een met `recalld serve --upstream URL`.",
};

/// Whether a text is one of our own answers, or the beginning of one.
pub(super) fn is_own(text: &str) -> bool {
    [ENGLISH, DUTCH].iter().any(|language| text.contains(language.closing) || language.begins(text))
}

impl Language {
    /// The language to answer in: Dutch for Dutch, else English.
    pub(super) fn of(question: &str) -> &'static Self {
        match language::detect(question, ["en", "nl"].into_iter()) {
            Some("nl") => &DUTCH,
            _ => &ENGLISH,
        }
    }

    /// The whole answer.
    pub(super) fn phrase(&self, finding: &Finding<'_>, question: &str) -> String {
        let found = match finding {
            Finding::Quotes(quotes) => self.quotes(quotes, question),
            Finding::Continues(said) => {
                let opening = if said.is_question() { self.continues_asked } else { self.continues_said };
                format!("{opening} {} {}", quote(&said.text, question), self.unanswered)
            }
            Finding::Nothing => self.nothing.to_owned(),
            Finding::Empty => self.empty.to_owned(),
        };
        format!("{found}\n\n{}", self.closing)
    }

    /// Whether a text begins as our answers do. What is recalled of them may have lost its end.
    fn begins(&self, text: &str) -> bool {
        let quoting = [self.said, self.asked, self.answered, self.continues_said, self.continues_asked];
        let (before, after) = self.elsewhere.split_once("{day}").unwrap_or_default();
        let session = after.split('{').next().unwrap_or_default();
        let quotes_dated = |text: &str| {
            let rest =
                text.strip_prefix(before).map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-'));
            rest.is_some_and(|rest| rest.starts_with(session))
        };
        quoting.iter().any(|opening| text.starts_with(&format!("{opening} “")))
            || [self.nothing, self.empty].iter().any(|whole| text.starts_with(whole))
            || quotes_dated(text)
    }

    /// Where and by whom something was said in another conversation.
    fn elsewhere(&self, said: &Said, source: &Source) -> String {
        let place = self.elsewhere.replace("{day}", &source.day).replace("{session}", &source.session);
        let by = match (&source.name, said.by) {
            (Some(name), _) => self.elsewhere_named.replace("{name}", name),
            (None, Role::User) if said.is_question() => self.elsewhere_asked.to_owned(),
            (None, Role::User) => self.elsewhere_said.to_owned(),
            _ => self.elsewhere_answered.to_owned(),
        };
        format!("{place} {by}")
    }

    fn quotes(&self, quotes: &[&Said], question: &str) -> String {
        let opening = |at: usize, said: &Said| match (at, said.by) {
            (0, Role::User) if said.is_question() => self.asked,
            (0, Role::User) => self.said,
            (0, _) => self.answered,
            (_, Role::User) if said.is_question() => self.also_asked,
            (_, Role::User) => self.also_said,
            _ => self.also_answered,
        };
        let opening = |at: usize, said: &Said| match &said.source {
            Some(source) => self.elsewhere(said, source),
            None => opening(at, said).to_owned(),
        };
        let sentence = |(at, said): (usize, &&Said)| format!("{} {}", opening(at, said), quote(&said.text, question));
        quotes.iter().enumerate().map(sentence).collect::<Vec<_>>().join(" ")
    }
}

/// A text between quotation marks. A long one begins at the sentence that concerns the question and
/// ends at a word.
fn quote(text: &str, question: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= QUOTE_CHARS_MAX {
        return format!("“{text}”");
    }
    let start = telling_sentence(&text, question);
    let before = if start == 0 { "" } else { "… " };
    let (quoted, after) = shorten(&text[start..]);
    format!("“{before}{quoted}{after}”")
}

/// Where the sentence begins that shares most words with the question; the first of equals.
fn telling_sentence(text: &str, question: &str) -> usize {
    let asked = content_words(question);
    let ends = text.match_indices(' ').filter(|(at, _)| text[..*at].ends_with(['.', '!', '?']));
    let starts: Vec<usize> = [0].into_iter().chain(ends.map(|(at, _)| at + 1)).collect();
    let shared = |at: usize| {
        let end = starts.get(at + 1).copied().unwrap_or(text.len());
        content_words(&text[starts[at]..end]).intersection(&asked).count()
    };
    (0..starts.len()).min_by_key(|at| Reverse(shared(*at))).map_or(0, |at| starts[at])
}

/// The beginning of a text, and what to put after it.
fn shorten(text: &str) -> (&str, &'static str) {
    let Some((end, _)) = text.char_indices().nth(QUOTE_CHARS_MAX) else {
        return (text, "");
    };
    // A text without spaces, such as a long link, is cut where it must be.
    let end = text[..end].rfind(' ').unwrap_or(end);
    (&text[..end], " …")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_quoted_whole() {
        assert_eq!(quote("I live\n  in Lisbon.", "Where?"), "“I live in Lisbon.”");
        assert_eq!(quote(&"é".repeat(300), ""), format!("“{}”", "é".repeat(300)));
    }

    #[test]
    fn a_long_text_ends_at_a_word() {
        let quoted = quote(&"word ".repeat(100), "");
        assert!(quoted.ends_with("word …”"), "{quoted}");
        assert!(quoted.chars().count() <= QUOTE_CHARS_MAX + 4, "{quoted}");
        assert_eq!(quote(&"é".repeat(301), ""), format!("“{} …”", "é".repeat(300)));
    }

    #[test]
    fn a_long_text_begins_where_it_matters() {
        let text = format!("{} My dog is Rex. It rains.", "Nothing here. ".repeat(40));
        assert_eq!(quote(&text, "What is my dog?"), "“… My dog is Rex. It rains.”");
    }

    #[track_caller]
    fn check(question: &str, dutch: bool) {
        assert_eq!(Language::of(question).said == DUTCH.said, dutch, "{question}");
    }

    #[test]
    fn the_question_chooses_the_language() {
        for question in ["Welke producten heb je daarvoor?", "Waar woon ik?", "Hoe heet ik?", "En wat kost dat?"] {
            check(question, true);
        }
        for question in ["Where do I live?", "What is my name?", "Why?", "And the price?", "hi", "", "12?", "你好"] {
            check(question, false);
        }
    }
}
