//! Candidates for a summary, and what they would bring to it.

use std::collections::HashMap;

use super::Said;
use super::sentence::{Piece, clauses, sentences};
use super::state::{Kind, Manner, Names, kind, manner};
use crate::language::{Tongue, Word, spans, term, tongue};
use crate::tokens;

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
    pub(super) tokens: usize,
}

/// All candidates of a stretch, and what each thing they state is worth.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) all: Vec<Candidate>,
    pub(super) worth: Vec<f64>,
}

/// Sentences that were told in an earlier summary have been chosen once already.
const TOLD_BEFORE: f64 = 1.3;
const ASKS: f64 = 0.4;
const DECIDES: f64 = 1.15;
const CHATS: f64 = 0.6;
const ABOUT_SELF: f64 = 1.1;
/// A part is worth less than its words: it has lost what it hung on.
const CUT: f64 = 0.85;
/// How much longer messages lose to shorter ones, so that an essay does not drown a conversation.
const LENGTH: f64 = 0.35;

const NAME: f64 = 3.0;
const NUMBER: f64 = 3.0;
const DATE: f64 = 3.0;

/// Weighs everything that was said. The first so many were told in an earlier summary.
pub(super) fn weigh(stretch: &[Said<'_>], told_before: usize) -> Candidates {
    let mut scale = Scale { names: Names::of(stretch), ids: HashMap::new(), uses: Vec::new(), kinds: Vec::new() };
    let mut all = Vec::new();
    let mut tongue_before = Tongue::default();
    let mut sentences_before = 0;
    for (at, said) in stretch.iter().enumerate() {
        tongue_before = tongue(said.text, tongue_before);
        let pieces = sentences(said.text);
        let standing =
            if at < told_before { TOLD_BEFORE } else { 1.0 / (1.0 + LENGTH * (pieces.len().max(1) as f64).ln()) };
        for piece in &pieces {
            let message =
                Message { said: at, sentence: sentences_before, text: said.text, tongue: tongue_before, standing };
            all.extend(scale.candidates(&message, piece));
            sentences_before += 1;
        }
    }
    Candidates { worth: scale.worths(sentences_before), all }
}

/// Where a sentence comes from.
struct Message<'a> {
    said: usize,
    sentence: usize,
    text: &'a str,
    tongue: Tongue,
    standing: f64,
}

/// What was stated so far, and in how many sentences.
struct Scale {
    names: Names,
    ids: HashMap<(Kind, String), u32>,
    uses: Vec<u32>,
    kinds: Vec<Kind>,
}

impl Scale {
    /// A sentence, and its clauses if it is long.
    fn candidates(&mut self, message: &Message<'_>, sentence: &Piece) -> Vec<Candidate> {
        let whole = self.candidate(message, sentence);
        whole.items.iter().for_each(|item| self.uses[*item as usize] += 1);
        let parts = clauses(message.text, sentence);
        let parts: Vec<Candidate> = parts.iter().map(|part| self.candidate(message, part)).collect();
        [whole].into_iter().chain(parts).collect()
    }

    fn candidate(&mut self, message: &Message<'_>, piece: &Piece) -> Candidate {
        let text = &message.text[piece.at.clone()];
        let words: Vec<Word<'_>> = spans(text).collect();
        let mut items: Vec<u32> = words.iter().filter_map(|word| self.item(text, word, message.tongue)).collect();
        items.sort_unstable();
        items.dedup();
        let cut = if piece.cut.0 || piece.cut.1 { CUT } else { 1.0 };
        let factor = message.standing * cut * worth_of(manner(text, &words, message.tongue));
        let shown = tokens::count(text) + usize::from(piece.cut.0) + usize::from(piece.cut.1);
        Candidate { said: message.said, sentence: message.sentence, piece: piece.clone(), items, factor, tokens: shown }
    }

    fn item(&mut self, text: &str, word: &Word<'_>, tongue: Tongue) -> Option<u32> {
        let kind = kind(text, word, tongue, &self.names)?;
        let key = match kind {
            Kind::Term => term(word.as_ref(), tongue),
            _ => word.text.clone().into_owned(),
        };
        let next = self.ids.len() as u32;
        let id = *self.ids.entry((kind, key)).or_insert(next);
        if id == next {
            self.uses.push(0);
            self.kinds.push(kind);
        }
        Some(id)
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
