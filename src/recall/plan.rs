//! How a question is searched for: read, completed, and in whose words.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::complete::{Added, Running, complete};
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
    /// When it is asked.
    pub(crate) now: Timestamp,
    /// What is embedded, with names and without.
    pub(crate) full_text: String,
    pub(crate) plain_text: String,
    /// What is matched by words.
    words_text: String,
    /// The speakers whose names the question was read with, and their numbers then.
    participants: Vec<(u16, String)>,
}

/// A question as it is read in one scope, before the running conversation is looked at.
pub(crate) struct ReadQuestion {
    pub(crate) question: Question,
    zone: TimeZone,
    now: Timestamp,
    participants: Vec<(u16, String)>,
}

impl ReadQuestion {
    pub(crate) fn read(index: &ScopeIndex, ask: &Ask, now: Timestamp) -> Self {
        let zone = ask.zone.clone().unwrap_or(TimeZone::UTC);
        let speaks = (1..index.speakers.len() as u16).filter(|at| !index.spoken[*at as usize].is_empty());
        let names: Vec<String> = speaks.clone().map(|at| index.speakers[at as usize].clone()).collect();
        let now = ask.asked_at.unwrap_or(now);
        let reading = Reading {
            participants: &names,
            now,
            zone: zone.clone(),
            tongue_otherwise: Tongue::English,
            from: ask.from,
            to: ask.to,
        };
        let question = read(&ask.question, &reading);
        Self { question, zone, now, participants: speaks.zip(names).collect() }
    }
}

impl Plan {
    pub(crate) fn make(
        index: &ScopeIndex,
        ask: &Ask,
        read: ReadQuestion,
        running: &Running,
        profile: Option<Profile>,
    ) -> Self {
        let ReadQuestion { question, zone, now, participants } = read;
        let profile = ask.profile.or(profile).unwrap_or_else(|| told_by_roles(index));
        let added = complete(&question, running, |word| rarity(index, word, question.tongue));
        let within =
            Within { from: ask.from.map(Timestamp::as_microsecond), to: ask.to.map(Timestamp::as_microsecond) };
        let (full_text, plain_text, words_text) = texts(&question, &added, profile);
        Self { question, added, profile, within, zone, now, full_text, plain_text, words_text, participants }
    }

    /// The question in the words of the scope.
    pub(crate) fn asked(&self, index: &ScopeIndex, vectors: &QuestionVectors) -> Asked<'_> {
        let participants = self.numbers(index);
        Asked::new(index, &self.question, &self.words_text, &self.added, &participants, vectors, self.zone.clone())
    }

    /// The participants' numbers in this index, 0 for who is not in it: it may have been loaded anew since.
    fn numbers(&self, index: &ScopeIndex) -> Vec<u16> {
        let number = |(before, name): &(u16, String)| match index.speakers.get(*before as usize) {
            Some(speaker) if speaker == name => *before,
            _ => index.speakers.iter().position(|speaker| speaker == name).unwrap_or(0) as u16,
        };
        self.participants.iter().map(number).collect()
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
    let named = keys - index.spoken[0].len().min(keys);
    let replies = index.replies.len();
    if 4 * replies >= keys && 4 * named < keys {
        Profile::Assistant
    } else if 20 * replies < keys && 4 * named >= 3 * keys {
        Profile::People
    } else {
        Profile::Mixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CountedIds, Ids};
    use crate::message::{Message, Role};
    use crate::recall::index::{Change, IndexedTurn};
    use crate::recall::row::{ReadRows, encode, rows_of};
    use crate::session::{Turn, TurnStatus};

    /// What people with these names said.
    fn index(names: &[&str]) -> ScopeIndex {
        let ids = CountedIds::default();
        let said = |(order, name): (i64, &&str)| {
            let at = Timestamp::UNIX_EPOCH;
            let message = Message { name: Some((*name).to_owned()), ..Message::new(Role::User, "We met in May.", at) };
            let turn = Turn {
                id: ids.turn(at),
                session: ids.session(),
                number: 1,
                status: TurnStatus::Complete,
                messages: vec![message],
                metadata: Default::default(),
                created_at: at,
                superseded: false,
            };
            Change::Put(IndexedTurn {
                order,
                turn: turn.id,
                session: turn.session,
                rows: ReadRows::of(encode(&rows_of(&turn))),
                vectors: vec![],
            })
        };
        let mut index = ScopeIndex::new(4);
        index.apply((1..).zip(names).map(said).collect());
        index
    }

    /// A scope may be loaded anew between two looks at it, without those whose words were deleted.
    #[test]
    fn a_question_outlives_the_index_it_was_read_with() {
        let ask = Ask { question: "What did Cyd say?".to_owned(), ..Ask::default() };
        let three = index(&["Ann", "Bob", "Cyd"]);
        let plan = Plan::make(
            &three,
            &ask,
            ReadQuestion::read(&three, &ask, Timestamp::UNIX_EPOCH),
            &Running::default(),
            None,
        );
        let check = |names: &[&str], expected: [u16; 3]| {
            let index = index(names);
            plan.asked(&index, &QuestionVectors::default());
            assert_eq!(plan.numbers(&index), expected, "{names:?}");
        };
        check(&["Ann", "Bob", "Cyd"], [1, 2, 3]);
        check(&["Cyd", "Ann"], [2, 0, 1]);
        check(&[], [0, 0, 0]);
    }
}
