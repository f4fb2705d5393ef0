//! How a question is searched for: read, completed, and in whose words.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::complete::{Added, complete};
use super::index::ScopeIndex;
use super::question::{Question, Reading, read};
use super::search::Within;
use super::signals::lexical::idf;
use super::signals::{Asked, QuestionVectors};
use super::{Ask, Profile};
use crate::language::{Tongue, term};

/// A question, ready to be searched for in one scope.
pub(crate) struct Plan {
    pub(crate) question: Question,
    /// What the question was completed with.
    pub(crate) added: Added,
    pub(crate) profile: Profile,
    pub(crate) within: Within,
    pub(crate) zone: TimeZone,
    /// What is embedded, with names and without.
    pub(crate) full_text: String,
    pub(crate) plain_text: String,
    /// What is matched by words.
    words_text: String,
    /// The speakers whose names the question was read with.
    participants: Vec<u16>,
}

impl Plan {
    pub(crate) fn make(
        index: &ScopeIndex,
        ask: &Ask,
        running: &[String],
        profile: Option<Profile>,
        now: Timestamp,
    ) -> Self {
        let profile = ask.profile.or(profile).unwrap_or_else(|| told_by_roles(index));
        let zone = ask.zone.clone().unwrap_or(TimeZone::UTC);
        let participants: Vec<u16> =
            (1..index.speakers.len() as u16).filter(|at| index.spoken[*at as usize] > 0).collect();
        let names: Vec<String> = participants.iter().map(|at| index.speakers[*at as usize].clone()).collect();
        let reading = Reading {
            participants: &names,
            now: ask.asked_at.unwrap_or(now),
            zone: zone.clone(),
            tongue_otherwise: Tongue::English,
            from: ask.from,
            to: ask.to,
        };
        let question = read(&ask.question, &reading);
        let added = complete(&question, running, |word| rarity(index, word, question.tongue));
        let within =
            Within { from: ask.from.map(Timestamp::as_microsecond), to: ask.to.map(Timestamp::as_microsecond) };
        let (full_text, plain_text, words_text) = texts(&question, &added, profile);
        Self { question, added, profile, within, zone, full_text, plain_text, words_text, participants }
    }

    /// The question in the words of the scope.
    pub(crate) fn asked(&self, index: &ScopeIndex, vectors: &QuestionVectors) -> Asked<'_> {
        Asked::new(index, &self.question, &self.words_text, &self.added, &self.participants, vectors, self.zone.clone())
    }
}

/// What is embedded with names and without, and what is matched. Asking a model for what was said comes in many
/// polite words that say nothing; between people they may.
fn texts(question: &Question, added: &Added, profile: Profile) -> (String, String, String) {
    let (plain, words) = match profile {
        Profile::Assistant => (&question.cleaned, &question.cleaned),
        Profile::People | Profile::Mixed => (&question.without_names, &question.text),
    };
    (added.to(&question.text), added.to(plain), words.clone())
}

fn rarity(index: &ScopeIndex, word: &str, tongue: Tongue) -> f32 {
    let term = index.vocabulary.term(&term(word, tongue));
    let with_it = term.map_or(0, |term| index.keys.postings(term).len() + index.replies.postings(term).len());
    idf(index.keys.len() + index.replies.len(), with_it) as f32
}

/// A model's replies make a chat with an assistant, names make one between people.
fn told_by_roles(index: &ScopeIndex) -> Profile {
    let keys = index.keys.len().max(1);
    let named = keys - (index.spoken[0] as usize).min(keys);
    let replies = index.replies.len();
    if 4 * replies >= keys && 4 * named < keys {
        Profile::Assistant
    } else if 20 * replies < keys && 4 * named >= 3 * keys {
        Profile::People
    } else {
        Profile::Mixed
    }
}
