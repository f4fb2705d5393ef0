//! Everything recall knows about one scope, in memory: words, terms, vectors, who said what where.
//!
//! An index is built from rows in the order in which the store received the turns, and grows as turns commit. A change
//! further back (an edit, a removal, a turn that closed late) takes the tail away, and puts what is left of it
//! back: the index is then equal to one that was built anew.
//!
//! Reading order: `docs` (messages), `card` (what is known of one), `keys` (what messages of people are beside others), `vocabulary`, `nearest`, `cache` (which scopes are in memory).
//!
//! **Invariant:** the same turns give the same index, whatever happened on the way.

pub(crate) mod cache;
pub(crate) mod card;
pub(crate) mod docs;
mod keys;
pub(crate) mod nearest;
pub(crate) mod vocabulary;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kernel::{Bytes, dot};
use docs::{DOCS_MAX, Doc, DocNo, Docs, NONE, PackedWord};
use keys::{KeyColumns, Lengths};
use vocabulary::{Vocabulary, WordNo};

use super::row::{ReadRow, ReadRows, ReadWord, Voice};
use crate::id::{SessionId, TurnId};
use crate::language::{Tongue, words};

/// Messages before a message in which a word makes it less new.
const NOVELTY_WINDOW: u32 = 150;
/// Neighbours whose similarity to a message is kept.
pub(crate) const NEAR: usize = 4;

/// A turn as the index takes it in.
pub(crate) struct IndexedTurn {
    /// Where the store put it: turns are ordered by this.
    pub(crate) order: i64,
    pub(crate) turn: TurnId,
    pub(crate) session: SessionId,
    pub(crate) rows: ReadRows,
    /// As many as rows, or none.
    pub(crate) vectors: Vec<Option<Bytes>>,
}

/// What happened to a scope.
pub(crate) enum Change {
    Put(IndexedTurn),
    Gone(TurnId),
}

/// The messages of one session, in order.
#[derive(Default)]
pub(crate) struct SessionDocs {
    pub(crate) keys: Vec<DocNo>,
    pub(crate) length: u64,
}

struct TurnDocs {
    turn: TurnId,
    /// Where its messages begin among all.
    first_key: DocNo,
    first_reply: DocNo,
    session: u32,
    keys: u32,
    replies: u32,
    /// In the order of the turn: `true` for a key.
    voices: Vec<bool>,
}

/// The index of one scope.
pub(crate) struct ScopeIndex {
    pub(crate) vocabulary: Vocabulary,
    /// What people said: what is searched.
    pub(crate) keys: Docs,
    pub(crate) key: KeyColumns,
    /// What the model replied.
    pub(crate) replies: Docs,
    pub(crate) sessions: Vec<SessionDocs>,
    /// How many of them have keys.
    pub(crate) spoken_in: usize,
    pub(crate) session_ids: Vec<SessionId>,
    session_numbers: HashMap<SessionId, u32>,
    /// Names of people, in the order in which they first spoke; the first is nobody's.
    pub(crate) speakers: Vec<String>,
    /// The keys of each of them, oldest first.
    pub(crate) spoken: Vec<Vec<DocNo>>,
    /// Terms of those names.
    pub(crate) name_terms: std::collections::HashSet<vocabulary::TermNo>,
    turns: BTreeMap<i64, TurnDocs>,
    orders: HashMap<TurnId, i64>,
    instance: u64,
}

/// Indexes that were made so far.
static INSTANCES: AtomicU64 = AtomicU64::new(0);

/// More names than this are one crowd.
const SPEAKERS_MAX: usize = 512;

impl ScopeIndex {
    /// Names that were said in some messages and the replies to them, and in how many.
    pub(crate) fn names_in(&self, keys: &[DocNo]) -> Vec<(String, usize)> {
        let mut counts: HashMap<WordNo, usize> = HashMap::new();
        let mut count = |words: &[PackedWord]| {
            words.iter().filter(|word| word.capital()).for_each(|word| *counts.entry(word.word()).or_default() += 1);
        };
        for key in keys {
            count(self.keys.words(*key));
            if let Some(reply) = self.keys.card(*key).partner() {
                count(self.replies.words(reply));
            }
        }
        counts.into_iter().map(|(word, count)| (self.vocabulary.text(word).to_owned(), count)).collect()
    }

    /// What people said in these turns, oldest first, as far as it is among the newest messages.
    pub(crate) fn keys_of(&self, turns: &[TurnId], newest: usize) -> Vec<DocNo> {
        let from = self.keys.len().saturating_sub(newest) as DocNo;
        let held = turns.iter().filter_map(|turn| self.turns.get(self.orders.get(turn)?));
        let mut keys: Vec<DocNo> = held.flat_map(|held| held.first_key..held.first_key + held.keys).collect();
        keys.retain(|key| *key >= from);
        keys.sort_unstable();
        keys
    }

    /// The newest turns before one, newest first, with their places.
    pub(crate) fn turns_before(&self, order: i64, count: usize) -> Vec<(i64, TurnId)> {
        self.turns.range(..order).rev().take(count).map(|(order, held)| (*order, held.turn)).collect()
    }

    /// How many messages come with their speaker's name.
    pub(crate) fn named(&self) -> u64 {
        (self.keys.len() - self.spoken[0].len()) as u64
    }

    pub(crate) fn new(dimensions: usize) -> Self {
        Self {
            vocabulary: Vocabulary::default(),
            keys: Docs::new(dimensions),
            key: KeyColumns::default(),
            replies: Docs::new(dimensions),
            sessions: Vec::new(),
            spoken_in: 0,
            session_ids: Vec::new(),
            session_numbers: HashMap::new(),
            speakers: vec![String::new()],
            spoken: vec![Vec::new()],
            name_terms: std::collections::HashSet::new(),
            turns: BTreeMap::new(),
            orders: HashMap::new(),
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Which index this is: as long as it is the same, numbers of words and terms mean the same.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    /// Takes changes in, in any order.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
        let mut changed: BTreeMap<i64, Option<IndexedTurn>> = BTreeMap::new();
        let mut same = Vec::new();
        for change in changes {
            match change {
                Change::Put(turn) if self.has(&turn) => same.push(turn.order),
                Change::Put(turn) => {
                    if let Some(order) = self.orders.get(&turn.turn) {
                        changed.insert(*order, None);
                    }
                    changed.insert(turn.order, Some(turn));
                }
                Change::Gone(turn) => {
                    if let Some(order) = self.orders.get(&turn) {
                        changed.entry(*order).or_insert(None);
                    }
                }
            }
        }
        // What is told to be there is there, whatever else was told of it.
        same.iter().for_each(|order| drop(changed.remove(order)));
        let Some((&first, _)) = changed.first_key_value() else { return };
        let tail = self.take_tail(first);
        self.put_back(tail, changed);
    }

    /// Whether a turn is here just as it is told. Vectors that were made at once are told again when they are kept; taking in
    /// what is there already would move everything behind it.
    fn has(&mut self, turn: &IndexedTurn) -> bool {
        let Some(held) = self.turns.get(&turn.order).filter(|held| held.turn == turn.turn) else { return false };
        let (session, voices) = (held.session, held.voices.clone());
        let (mut key, mut reply) = (held.first_key, held.first_reply);
        let rows = &turn.rows.rows;
        if self.session_ids[session as usize] != turn.session || rows.len() != voices.len() {
            return false;
        }
        let vectors = turn.vectors.iter().cloned().chain(std::iter::repeat(None));
        rows.iter().zip(vectors).zip(voices).all(|((row, vector), is_key)| {
            let doc = self.doc(turn.turn, session, &turn.rows, row, vector);
            let (docs, no) = if is_key { (&self.keys, &mut key) } else { (&self.replies, &mut reply) };
            *no += 1;
            is_key == (row.voice == Voice::Person) && docs.doc(*no - 1) == doc
        })
    }

    /// Puts the tail back in its order, with what changed in it.
    fn put_back(&mut self, tail: Vec<(i64, TurnDocs, Vec<Doc>)>, mut changed: BTreeMap<i64, Option<IndexedTurn>>) {
        for (order, turn, docs) in tail {
            while let Some(entry) = changed.first_entry().filter(|entry| *entry.key() < order) {
                if let Some(turn) = entry.remove() {
                    self.append(turn);
                }
            }
            match changed.remove(&order) {
                Some(Some(turn)) => self.append(turn),
                Some(None) => {}
                None => self.append_docs(order, turn.turn, turn.session, &turn.voices, docs),
            }
        }
        for turn in changed.into_values().flatten() {
            self.append(turn);
        }
    }

    fn append(&mut self, turn: IndexedTurn) {
        let rows = &turn.rows.rows;
        if self.keys.len() + rows.len() > DOCS_MAX || self.replies.len() + rows.len() > DOCS_MAX {
            return;
        }
        let session = self.session_number(turn.session);
        let voices: Vec<bool> = rows.iter().map(|row| row.voice == Voice::Person).collect();
        let mut vectors = turn.vectors.into_iter();
        let doc = |row: &ReadRow| self.doc(turn.turn, session, &turn.rows, row, vectors.next().flatten());
        let docs = rows.iter().map(doc).collect();
        self.append_docs(turn.order, turn.turn, session, &voices, docs);
    }

    fn doc(&mut self, turn: TurnId, session: u32, rows: &ReadRows, row: &ReadRow, vector: Option<Bytes>) -> Doc {
        let pack = |word: &ReadWord| {
            let no = self.vocabulary.learn_hashed(word.hash, row.tongue, || rows.letters(word));
            PackedWord::new(no, word.times, word.capital)
        };
        let words = row.words.iter().map(pack).collect();
        let speaker = row.name.as_deref().map_or(0, |name| self.speaker_number(name));
        let said_at = row.said_at.as_microsecond();
        Doc { id: turn.message(row.position), session, speaker, said_at, marks: row.marks, words, vector }
    }

    fn append_docs(&mut self, order: i64, turn: TurnId, session: u32, voices: &[bool], docs: Vec<Doc>) {
        let (first_key, first_reply) = (self.keys.len() as DocNo, self.replies.len() as DocNo);
        let mut asked = NONE;
        for (doc, is_key) in docs.iter().zip(voices) {
            if *is_key {
                asked = self.push_key(doc);
            } else {
                let reply = self.replies.len() as DocNo;
                self.replies.push(doc, &self.vocabulary);
                if asked != NONE {
                    self.replies.set_partner(reply, asked);
                    self.keys.set_partner(asked, reply);
                }
            }
        }
        let keys = voices.iter().filter(|is_key| **is_key).count() as u32;
        let replies = voices.len() as u32 - keys;
        let voices = voices.to_vec();
        self.turns.insert(order, TurnDocs { turn, first_key, first_reply, session, keys, replies, voices });
        self.orders.insert(turn, order);
    }

    fn push_key(&mut self, doc: &Doc) -> DocNo {
        let no = self.keys.len() as DocNo;
        let before = self.sessions[doc.session as usize].keys.last().copied();
        let terms = self.keys.push(doc, &self.vocabulary);
        let unseen = terms.iter().filter(|(term, _)| self.is_new(*term, no)).count();
        let novelty = unseen as f32 / (terms.len() + 2) as f32;
        self.keys.set_novelty(novelty);
        before.into_iter().for_each(|before| self.keys.link(before));
        self.key.push(self.near(no, doc.session), self.lengths(no));
        self.spoken[doc.speaker as usize].push(no);
        let session = &mut self.sessions[doc.session as usize];
        self.spoken_in += usize::from(session.keys.is_empty());
        session.keys.push(no);
        session.length += u64::from(self.keys.card(no).length);
        no
    }

    fn lengths(&self, no: DocNo) -> Lengths {
        let card = self.keys.card(no);
        (card.length, card.before().map(|before| self.keys.card(before).length))
    }

    /// Whether the messages before key `no` left a term unused for long. Its own use stands last in the list.
    fn is_new(&self, term: u32, no: DocNo) -> bool {
        let postings = self.keys.postings(term);
        let earlier = postings.len().checked_sub(2).map(|at| postings[at].doc());
        earlier.is_none_or(|earlier| no - earlier > NOVELTY_WINDOW)
    }

    fn near(&self, no: DocNo, session: u32) -> [f32; NEAR] {
        let mut near = [0.0; NEAR];
        let Some((own, scale)) = self.keys.vector(no) else { return near };
        for (at, other) in self.sessions[session as usize].keys.iter().rev().take(NEAR).enumerate() {
            if let Some((other, other_scale)) = self.keys.vector(*other) {
                near[at] = dot(own, other) as f32 * scale * other_scale;
            }
        }
        near
    }

    /// Takes all turns from `order` on away, and answers them.
    fn take_tail(&mut self, order: i64) -> Vec<(i64, TurnDocs, Vec<Doc>)> {
        let tail = self.turns.split_off(&order);
        let mut taken: Vec<_> = tail
            .into_iter()
            .rev()
            .map(|(order, turn)| {
                self.orders.remove(&turn.turn);
                let docs = self.pop_turn(&turn);
                (order, turn, docs)
            })
            .collect();
        taken.reverse();
        taken
    }

    fn pop_turn(&mut self, turn: &TurnDocs) -> Vec<Doc> {
        let mut docs: Vec<Doc> = turn
            .voices
            .iter()
            .rev()
            .filter_map(|is_key| {
                if *is_key {
                    return self.pop_key();
                }
                self.replies.pop(&self.vocabulary)
            })
            .collect();
        debug_assert_eq!(docs.len(), (turn.keys + turn.replies) as usize);
        docs.reverse();
        docs
    }

    fn pop_key(&mut self) -> Option<Doc> {
        let no = self.keys.len().checked_sub(1)? as DocNo;
        self.key.pop(self.lengths(no));
        let doc = self.keys.pop(&self.vocabulary)?;
        self.spoken[doc.speaker as usize].pop();
        let session = &mut self.sessions[doc.session as usize];
        session.keys.pop();
        self.spoken_in -= usize::from(session.keys.is_empty());
        session.length -= doc.words.iter().map(|word| u64::from(word.times())).sum::<u64>();
        Some(doc)
    }

    fn session_number(&mut self, session: SessionId) -> u32 {
        let next = self.sessions.len() as u32;
        let number = *self.session_numbers.entry(session).or_insert(next);
        if number == next {
            self.sessions.push(SessionDocs::default());
            self.session_ids.push(session);
        }
        number
    }

    /// A session's messages, if it has any.
    pub(crate) fn session(&self, session: SessionId) -> Option<&SessionDocs> {
        self.session_numbers.get(&session).map(|number| &self.sessions[*number as usize])
    }

    fn speaker_number(&mut self, name: &str) -> u16 {
        if let Some(at) = self.speakers.iter().position(|speaker| speaker == name) {
            return at as u16;
        }
        if self.speakers.len() == SPEAKERS_MAX {
            return 0;
        }
        self.speakers.push(name.to_owned());
        self.spoken.push(Vec::new());
        for word in words(name) {
            let word = self.vocabulary.learn(&word, Tongue::English);
            self.name_terms.insert(self.vocabulary.term_of(word));
        }
        (self.speakers.len() - 1) as u16
    }

    /// Gives back memory that was taken to grow into.
    pub(crate) fn shrink(&mut self) {
        self.keys.shrink();
        self.replies.shrink();
    }

    /// Lets the oldest quarter of the turns go, for a scope that is too large for memory.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        let count = self.turns.len() / 4;
        let oldest: Vec<Change> = self.turns.values().take(count).map(|turn| Change::Gone(turn.turn)).collect();
        self.apply(oldest);
        count > 0
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        const KEY: usize = NEAR * size_of::<f32>() + size_of::<DocNo>();
        const TURN: usize = 96;
        self.vocabulary.bytes()
            + self.keys.bytes()
            + self.replies.bytes()
            + self.keys.len() * KEY
            + self.turns.len() * TURN
            + self.sessions.len() * 120
    }
}

#[cfg(test)]
mod tests;
