//! What one scope must and must not recall: every word that was ever said there, and what became of it.
//!
//! Each message holds a word that nobody else says and that begins with its scope's own word, so whatever comes out of
//! recall tells by itself whose it is and which message it was. Changes are counted: a recall that began before one may
//! see it or not, a recall that began after it must.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use recalld::id::{MessageId, SessionId, TurnId};

use super::Dice;

/// No word of any language begins like this, so every word that does is somebody's.
const MARK: &str = "xy";
/// Letters of a scope's number, and of a message's.
const SCOPE_LETTERS: usize = 5;
const MESSAGE_LETTERS: usize = 4;

/// The scope's own word: all its messages hold it.
fn scope_word(scope: usize) -> String {
    format!("{MARK}{}k", letters(scope, SCOPE_LETTERS))
}

/// A number in the letters `a` to `j`.
fn letters(number: usize, count: usize) -> String {
    let digits = format!("{number:0count$}");
    digits.bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
}

fn number(letters: &str) -> Option<usize> {
    let digit = |letter: u8| (b'a'..=b'j').contains(&letter).then(|| usize::from(letter - b'a'));
    letters.bytes().try_fold(0, |number, letter| Some(10 * number + digit(letter)?))
}

/// A message by the number of its word.
pub(super) type Word = usize;

/// A question and its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    pub(super) question: Word,
    pub(super) answer: Word,
}

impl Pair {
    pub(super) fn words(self) -> [Word; 2] {
        [self.question, self.answer]
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// Being written: may be found.
    Coming,
    /// Written and acknowledged: must be found.
    There,
    /// Being removed or rewritten: may be found.
    Leaving,
    /// That was acknowledged: must not be found.
    Gone,
}

/// What became of a message.
#[derive(Debug)]
pub(super) struct Said {
    session: SessionId,
    fate: Fate,
    /// The change that made it so.
    since: u64,
    /// When its time is over.
    until: Option<Timestamp>,
}

/// A session that others add to and delete at the same time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Session {
    pub(super) id: SessionId,
    /// It may vanish by itself.
    pub(super) fleeting: bool,
}

/// A chat with a model, led by one task at a time.
#[derive(Debug, Default)]
pub(super) struct Chat {
    pub(super) session: Option<SessionId>,
    pub(super) shown: Vec<(Pair, [String; 2])>,
}

/// What is known of a scope.
#[derive(Debug)]
pub(super) struct Diary {
    own: String,
    said: Vec<Said>,
    turns: BTreeMap<TurnId, Pair>,
    /// Turns that were recalled before their writer was answered.
    strangers: HashSet<TurnId>,
    changes: u64,
    pub(super) sessions: Vec<Session>,
    /// Sessions that are being deleted, and those that are.
    closing: HashSet<SessionId>,
    deleted: HashSet<SessionId>,
    /// Somebody has it when it is not here.
    pub(super) chat: Option<Chat>,
}

impl Diary {
    pub(super) fn of(scope: usize) -> Self {
        Self {
            own: scope_word(scope),
            said: Vec::new(),
            turns: BTreeMap::new(),
            strangers: HashSet::new(),
            changes: 0,
            sessions: Vec::new(),
            closing: HashSet::new(),
            deleted: HashSet::new(),
            chat: Some(Chat::default()),
        }
    }

    /// The scope's own word.
    pub(super) fn own(&self) -> &str {
        &self.own
    }

    /// A message's word.
    pub(super) fn text(&self, word: Word) -> String {
        format!("{}{}k", self.own, letters(word, MESSAGE_LETTERS))
    }

    /// What became of a message.
    pub(super) fn said(&self, word: Word) -> &Said {
        &self.said[word]
    }

    /// How many changes there have been: what a recall that begins now must know.
    pub(super) fn now(&self) -> u64 {
        self.changes
    }

    /// How many messages were ever said.
    pub(super) fn count(&self) -> usize {
        self.said.len()
    }

    // --- What happens ----------------------------------------------------------------------------------

    /// A word for a message that is about to be written.
    pub(super) fn coming(&mut self, session: SessionId) -> Word {
        self.said.push(Said { session, fate: Fate::Coming, since: self.changes, until: None });
        self.said.len() - 1
    }

    /// A turn was acknowledged. If its session is being deleted, or was, it goes with it.
    pub(super) fn arrived(&mut self, turn: TurnId, pair: Pair, until: Option<Timestamp>) {
        self.turns.insert(turn, pair);
        let session = self.said[pair.question].session;
        let fate = if self.deleted.contains(&session) {
            Fate::Gone
        } else if self.closing.contains(&session) {
            Fate::Leaving
        } else {
            Fate::There
        };
        self.set(&pair.words(), fate);
        pair.words().into_iter().for_each(|word| self.said[word].until = until);
    }

    pub(super) fn leaving(&mut self, words: &[Word]) {
        self.set(words, Fate::Leaving);
    }

    /// Gone, or never written.
    pub(super) fn gone(&mut self, words: &[Word]) {
        self.set(words, Fate::Gone);
    }

    /// A session is about to be deleted.
    pub(super) fn closing(&mut self, session: SessionId) {
        self.sessions.retain(|open| open.id != session);
        self.closing.insert(session);
        let words = self.words(|said| said.session == session && said.fate == Fate::There);
        self.leaving(&words);
    }

    /// Its deletion was acknowledged. What is being written to it is either refused or gone, too.
    pub(super) fn closed(&mut self, session: SessionId) {
        self.deleted.insert(session);
        let words = self.words(|said| said.session == session && said.fate != Fate::Coming);
        self.gone(&words);
    }

    /// The messages whose time is over.
    pub(super) fn overdue(&self, now: Timestamp) -> Vec<Word> {
        self.words(|said| said.fate != Fate::Gone && said.until.is_some_and(|until| until <= now))
    }

    fn words(&self, which: impl Fn(&Said) -> bool) -> Vec<Word> {
        (0..self.said.len()).filter(|word| which(&self.said[*word])).collect()
    }

    fn set(&mut self, words: &[Word], fate: Fate) {
        self.changes += 1;
        // What is gone stays gone: nothing is written twice.
        for word in words {
            let said = &mut self.said[*word];
            if said.fate != Fate::Gone {
                (said.fate, said.since) = (fate, self.changes);
            }
        }
    }

    /// Any question that was ever acknowledged, whatever became of it.
    pub(super) fn question(&self, dice: &mut Dice) -> Option<Word> {
        let turns = self.turns.len();
        (turns > 0).then(|| self.turns.values().nth(dice.below(turns)).expect("one of them").question)
    }

    // --- What must be so -------------------------------------------------------------------------------

    /// Whether a question was there from `began` on until now: then it must have been found.
    pub(super) fn must_be_found(&self, word: Word, began: u64, now: Timestamp) -> Option<TurnId> {
        let said = &self.said[word];
        let stayed = said.fate == Fate::There && said.since <= began && said.until.is_none_or(|until| now < until);
        let turn = || self.turns.iter().find(|(_, pair)| pair.question == word).map(|(turn, _)| *turn);
        stayed.then(turn).flatten()
    }

    /// Every word in a text is this scope's, and of a message that was not gone when the recall began.
    pub(super) fn check_text(&self, text: &str, began: u64) {
        let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
        for word in words.filter(|word| word.starts_with(MARK)) {
            let rest = word.strip_prefix(&self.own);
            let rest = rest.unwrap_or_else(|| panic!("`{word}` came up in the scope of `{}`: {text}", self.own));
            if let Some(number) = rest.strip_suffix('k').and_then(number) {
                let said = self.said.get(number).unwrap_or_else(|| panic!("nobody said `{word}`: {text}"));
                assert!(
                    !was_gone(said, began),
                    "`{word}` came up after it was gone ({said:?}, asked at {began}): {text}"
                );
            }
        }
    }

    /// The same for turns. One that is not known yet must turn out to be this scope's.
    pub(super) fn check_turns(&mut self, turns: impl IntoIterator<Item = TurnId>, began: u64) {
        for turn in turns {
            match self.turns.get(&turn) {
                Some(pair) => {
                    let said = &self.said[pair.question];
                    assert!(!was_gone(said, began), "{turn} was found after it was gone: {said:?}, asked at {began}");
                }
                None => drop(self.strangers.insert(turn)),
            }
        }
    }

    /// When nothing happens any more: exactly these messages are found, and nobody else's ever were.
    pub(super) fn check_all(&self, found: &[MessageId]) {
        let there = self.turns.iter().filter(|(_, pair)| self.said[pair.question].fate == Fate::There);
        let there: BTreeSet<MessageId> = there.flat_map(|(turn, _)| [turn.message(0), turn.message(1)]).collect();
        let found: BTreeSet<MessageId> = found.iter().copied().collect();
        let (lost, added): (Vec<_>, Vec<_>) = (there.difference(&found).collect(), found.difference(&there).collect());
        assert!(lost.is_empty() && added.is_empty(), "`{}`: lost {lost:?}, should not be there {added:?}", self.own);
        let strange: Vec<_> = self.strangers.iter().filter(|turn| !self.turns.contains_key(turn)).collect();
        assert!(strange.is_empty(), "`{}` was shown turns that are not its own: {strange:?}", self.own);
        assert!(self.said.iter().all(|said| matches!(said.fate, Fate::There | Fate::Gone)), "{:?}", self.said);
    }
}

fn was_gone(said: &Said, began: u64) -> bool {
    said.fate == Fate::Gone && said.since <= began
}
