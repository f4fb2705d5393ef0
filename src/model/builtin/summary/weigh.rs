//! Candidates for a summary, and what they would bring to it.

use std::collections::HashMap;

use super::Said;
use super::sentence::{Piece, clauses, sentences};
use super::state::{Kind, Manner, Names, kind, manner};
use crate::language::{Tongue, Word, spans, term, tongue};

/// A sentence or a part of one, with what it would tell.
#[derive(Debug)]
pub(super) struct Candidate {
    /// Which message it is in.
    pub(super) said: usize,
    /// Which sentence it is of; of one sentence at most one candidate is taken.
    pub(super) sentence: usize,
    pub(super) piece: Piece,
    /// What it states, each thing once.
    pub(super) items: Vec<u32>,
    /// What its manner and place make of that.
    pub(super) factor: f64,
}

/// All candidates of a stretch, and what each thing they state is worth.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) all: Vec<Candidate>,
    pub(super) worth: Vec<f64>,
}

/// Sentences that were told in an earlier summary have been chosen once already.
const TOLD_BEFORE: f64 = 1.3;
/// People begin with what they came to say.
const FIRST: f64 = 1.15;
/// How much longer messages lose to shorter ones, so that an essay does not drown a conversation.
const LENGTH: f64 = 0.15;
const ASKS: f64 = 0.4;
const DECIDES: f64 = 1.15;
const CHATS: f64 = 0.6;
const ABOUT_SELF: f64 = 1.1;
/// A part is worth less than its words: it has lost what it hung on.
const CUT: f64 = 0.85;

const NAME: f64 = 3.0;
const NUMBER: f64 = 3.0;
const DATE: f64 = 3.0;
const TIME: f64 = 2.5;

/// Weighs everything that was said. The first so many were told in an earlier summary.
pub(super) fn weigh(stretch: &[Said<'_>], told_before: usize) -> Candidates {
    let read = read(stretch, told_before);
    let mut names = Names::of(stretch.iter().map(|said| said.speaker));
    read.iter().for_each(|sentence| names.learn(sentence.text(), &sentence.words));
    let mut scale = Scale::default();
    let mut all = Vec::new();
    for (at, sentence) in read.iter().enumerate() {
        let items = scale.items(sentence, &names);
        all.extend(candidates(at, sentence, &items));
    }
    Candidates { worth: scale.worths(read.len()), all }
}

/// A sentence with its words.
struct Sentence<'a> {
    said: usize,
    message: &'a str,
    piece: Piece,
    tongue: Tongue,
    words: Vec<Word<'a>>,
    /// What its place makes of it.
    standing: f64,
}

impl<'a> Sentence<'a> {
    fn text(&self) -> &'a str {
        &self.message[self.piece.at.clone()]
    }
}

fn read<'a>(stretch: &[Said<'a>], told_before: usize) -> Vec<Sentence<'a>> {
    let mut read = Vec::new();
    let mut tongue_before = Tongue::default();
    for (said, Said { text: message, .. }) in stretch.iter().enumerate() {
        tongue_before = tongue(message, tongue_before);
        let pieces = sentences(message);
        let share = 1.0 / (1.0 + LENGTH * (pieces.len().max(1) as f64).ln());
        for (at, piece) in pieces.into_iter().enumerate() {
            let place = if at == 0 { FIRST * share } else { share };
            let standing = if said < told_before { TOLD_BEFORE } else { place };
            let words = spans(&message[piece.at.clone()]).collect();
            read.push(Sentence { said, message, piece, tongue: tongue_before, words, standing });
        }
    }
    read
}

/// A sentence, and its clauses if it has any.
fn candidates(at: usize, sentence: &Sentence<'_>, items: &[Option<u32>]) -> Vec<Candidate> {
    let factor = sentence.standing * worth_of(manner(sentence.text(), &sentence.words, sentence.tongue));
    let parts = clauses(sentence.message, &sentence.piece);
    let pieces = [sentence.piece.clone()].into_iter().chain(parts);
    let start = sentence.piece.at.start;
    let candidate = |piece: Piece| {
        let inside = |word: &Word<'_>| piece.at.contains(&(start + word.at.start));
        let words = sentence.words.iter().zip(items).filter(|(word, _)| inside(word));
        let mut items: Vec<u32> = words.filter_map(|(_, item)| *item).collect();
        items.sort_unstable();
        items.dedup();
        let cut = if piece.cut.0 || piece.cut.1 { CUT } else { 1.0 };
        Candidate { said: sentence.said, sentence: at, piece, items, factor: factor * cut }
    };
    pieces.map(candidate).collect()
}

/// What was stated so far, and in how many sentences.
#[derive(Default)]
struct Scale {
    ids: HashMap<(Kind, String), u32>,
    kinds: Vec<Kind>,
    uses: Vec<u32>,
    /// The last sentence that used it, so that one sentence counts once.
    used_in: Vec<usize>,
    sentences: usize,
}

impl Scale {
    /// What each word of a sentence states.
    fn items(&mut self, sentence: &Sentence<'_>, names: &Names) -> Vec<Option<u32>> {
        self.sentences += 1;
        let text = sentence.text();
        let item = |word: &Word<'_>| {
            let kind = kind(text, word, sentence.tongue, names)?;
            let key = match kind {
                Kind::Term => term(word.as_ref(), sentence.tongue),
                _ => word.text.clone().into_owned(),
            };
            Some(self.used(kind, key))
        };
        sentence.words.iter().map(item).collect()
    }

    fn used(&mut self, kind: Kind, key: String) -> u32 {
        let next = self.ids.len() as u32;
        let id = *self.ids.entry((kind, key)).or_insert(next);
        if id == next {
            self.kinds.push(kind);
            self.uses.push(0);
            self.used_in.push(0);
        }
        if self.used_in[id as usize] < self.sentences {
            self.used_in[id as usize] = self.sentences;
            self.uses[id as usize] += 1;
        }
        id
    }

    /// A word is worth more the more sentences it ties together, and less the more common it is; what is stated is worth
    /// more than what is talked about.
    fn worths(&self, sentences: usize) -> Vec<f64> {
        let all = (1.0 + sentences as f64).ln().max(1.0);
        let central = |uses: u32| {
            let uses = f64::from(uses.max(1));
            (1.0 + uses).log2() * (1.0 + sentences as f64 / uses).ln() / all
        };
        self.kinds.iter().zip(&self.uses).map(|(kind, uses)| of_kind(*kind) * central(*uses)).collect()
    }
}

fn of_kind(kind: Kind) -> f64 {
    match kind {
        Kind::Name => NAME,
        Kind::Number => NUMBER,
        Kind::Date => DATE,
        Kind::Time => TIME,
        Kind::Term => 1.0,
    }
}

fn worth_of(manner: Manner) -> f64 {
    let when = |is: bool, factor: f64| if is { factor } else { 1.0 };
    when(manner.asks, ASKS)
        * when(manner.decides, DECIDES)
        * when(manner.chats, CHATS)
        * when(manner.about_self, ABOUT_SELF)
}
