//! The signals of one question, column by column.

use std::rc::Rc;

use super::asked::{Asked, WordScores, highest};
use super::dense::{self, Dots};
use super::late::Late;
use super::lexical::{self, Around, Scores};
use super::{KeySignal, Moments, ReplySignal, priors};
use crate::recall::index::ScopeIndex;
use crate::recall::index::card::Card;
use crate::recall::index::docs::DocNo;
use crate::recall::index::vocabulary::TermNo;

/// Messages that pull the question's vector towards them.
const FEEDBACK_FROM: usize = 3;
/// A message that answers to less of the question than this, and is not near it either, is only the best of what there is.
const LATE_MIN: f32 = 0.25;
/// Which messages are scored, and which give the measure.
pub(crate) struct Pool {
    pub(crate) keys: Vec<DocNo>,
    /// Those to messages that are looked at closely come to them.
    pub(crate) replies: Vec<DocNo>,
    /// Messages that stay in whatever their score, because replies to them were found.
    pub(crate) answered: Vec<DocNo>,
    /// Messages over which similarities are normalised; empty for all that are scored.
    pub(crate) key_sample: Vec<DocNo>,
    pub(crate) reply_sample: Vec<DocNo>,
}

impl Pool {
    /// Everything, measured by everything.
    pub(crate) fn whole(index: &ScopeIndex) -> Self {
        Self {
            keys: (0..index.keys.len() as DocNo).collect(),
            replies: (0..index.replies.len() as DocNo).collect(),
            answered: Vec::new(),
            key_sample: Vec::new(),
            reply_sample: Vec::new(),
        }
    }
}

/// Where the signals of a question are worked out.
pub(crate) struct Board<'a> {
    index: &'a ScopeIndex,
    asked: &'a Asked<'a>,
    pool: Pool,
    words: WordScores,
    full: Dots<'a>,
    plain: Dots<'a>,
    replies: Dots<'a>,
    late: Late<'a>,
    /// Columns that were worked out already: several signals are made of others.
    columns: [Option<Rc<Vec<f32>>>; KeySignal::ALL.len()],
}

impl<'a> Board<'a> {
    pub(crate) fn new(index: &'a ScopeIndex, asked: &'a Asked<'a>, words: WordScores, pool: Pool) -> Self {
        Self {
            index,
            asked,
            pool,
            words,
            full: Dots::new(&index.keys, asked.full.clone()),
            plain: Dots::new(&index.keys, asked.plain.clone()),
            replies: Dots::new(&index.replies, asked.plain.clone()),
            late: asked.late(index),
            columns: [const { None }; KeySignal::ALL.len()],
        }
    }

    /// The messages that are scored.
    pub(crate) fn keys(&self) -> &[DocNo] {
        &self.pool.keys
    }

    /// The replies that are scored.
    pub(crate) fn replies(&self) -> &[DocNo] {
        &self.pool.replies
    }

    /// Goes on with the messages that are best by the signals that cost little, those whose replies were found, and
    /// all their replies.
    pub(crate) fn narrow(&mut self, weights: &[(KeySignal, f32)], count: usize) {
        // Several signals look at what was said before.
        let befores = self.pool.keys.iter().filter_map(|no| before(self.index, *no));
        befores.for_each(|no| self.index.keys.fetch_card(no));
        let scores = self.at_little_cost(weights);
        let best = highest(scores.into_iter().zip(0..).collect(), count);
        let mut kept: Vec<DocNo> = best.into_iter().map(|(_, at)| at).collect();
        let place = |no: &DocNo| self.pool.keys.binary_search(no).ok();
        kept.extend(self.pool.answered.iter().filter_map(place).map(|at| at as DocNo));
        kept.sort_unstable();
        kept.dedup();
        let of = |values: &[f32]| Rc::new(kept.iter().map(|at| values[*at as usize]).collect::<Vec<f32>>());
        self.columns.iter_mut().flatten().for_each(|column| *column = of(column));
        self.pool.keys = kept.iter().map(|at| self.pool.keys[*at as usize]).collect();
        let replies = self.pool.keys.iter().filter_map(|key| self.index.keys.card(*key).partner());
        self.pool.replies.extend(replies);
        self.pool.replies.sort_unstable();
        self.pool.replies.dedup();
    }

    /// Scores without the signals that cost much. Late interaction finds at least the words that are there: they stand
    /// in for it.
    fn at_little_cost(&mut self, weights: &[(KeySignal, f32)]) -> Vec<f32> {
        let mut scores = vec![0.0; self.pool.keys.len()];
        let mut add = |weight: f32, column: &[f32]| {
            scores.iter_mut().zip(column).for_each(|(score, value)| *score += weight * value);
        };
        for (signal, weight) in weights {
            match signal {
                KeySignal::Late => add(*weight, &self.spread_coverage()),
                signal if signal.is_costly() => {}
                signal => add(*weight, &self.column(*signal)),
            }
        }
        scores
    }

    fn spread_coverage(&mut self) -> Vec<f32> {
        let covered = self.column(KeySignal::Coverage);
        let moments = Moments::of(covered.iter().copied());
        covered.iter().map(|share| moments.z(*share)).collect()
    }

    /// Whether a message has anything to do with the question: it shares a word with it or means something near, was
    /// said at the time asked about, or says how such requests are to be answered.
    pub(crate) fn is_related(&mut self, is_key: bool, no: DocNo, near: f32) -> bool {
        let docs = if is_key { &self.index.keys } else { &self.index.replies };
        let question = self.asked.question;
        let Card { marks, said_at, .. } = *docs.card(no);
        let similar = if is_key { self.plain.of(no) } else { self.replies.of(no) };
        similar >= near
            || self.late.reaches(docs, no, LATE_MIN)
            || self.asked.date(said_at) > 0.0
            || (is_key && question.kind.req && (marks.instructs || marks.prefers))
            || (question.kind.list && !self.words.terms.followed.is_empty())
    }

    /// A signal of every message that is scored.
    pub(crate) fn column(&mut self, signal: KeySignal) -> Rc<Vec<f32>> {
        if let Some(column) = &self.columns[signal as usize] {
            return Rc::clone(column);
        }
        let column = Rc::new(self.work_out(signal));
        self.columns[signal as usize] = Some(Rc::clone(&column));
        column
    }

    fn work_out(&mut self, signal: KeySignal) -> Vec<f32> {
        use KeySignal::*;
        let kind = self.asked.question.kind;
        match signal {
            Own => self.own_near(|_, no| Some(no)),
            WithNames => self.normalised(&lexical::with_names(self.index, &self.asked.named_terms(self.index))),
            WithBefore => self.normalised(&self.around(Around::Before)),
            WithBoth => self.normalised(&self.around(Around::Both)),
            TwoBefore => self.own_near(|index, no| before(index, before(index, no)?)),
            Session => self.by_session(),
            AnswersQuestion => self.answers_question(),
            Coverage => lexical::coverage(self.index, &self.asked.terms, &self.pool.keys),
            // Without names it is the same question.
            Similar if self.asked.full == self.asked.plain => self.column(SimilarPlain).to_vec(),
            Similar => {
                self.meet();
                self.measured(|board, no| board.full.of(no))
            }
            SimilarPlain => {
                self.meet();
                self.measured(|board, no| board.plain.of(no))
            }
            SimilarBefore => self.similar_before(),
            SimilarList => self.only_if(kind.list, SimilarPlain),
            SimilarWindow => self.measured(|board, no| dense::window(board.index, &mut board.plain, no)),
            SimilarSession => self.similar_session(),
            Feedback => self.feedback(),
            Late => {
                self.late.meet(&self.index.keys, &self.pool.keys);
                self.late.meet(&self.index.keys, &self.pool.key_sample);
                self.measured(|board, no| board.late.of(&board.index.keys, no))
            }
            LateList => self.only_if(kind.list, Late),
            ReplyWords => self.reply_words_of_keys(),
            ReplySimilar => {
                let replies = self.pool.keys.iter().filter_map(|no| self.index.keys.card(*no).partner());
                dense::meet(&mut [&mut self.replies], replies);
                self.measured(|board, no| {
                    board.index.keys.card(no).partner().map_or(0.0, |reply| board.replies.of(reply))
                })
            }
            LengthList => self.only_if(kind.list, Length),
            NoveltyList => self.only_if(kind.list, Novelty),
            signal if !self.matters(signal) => vec![0.0; self.pool.keys.len()],
            _ => self.pool.keys.iter().map(|no| self.prior(signal, *no)).collect(),
        }
    }

    /// Works out what the question's vectors have to do with messages.
    fn meet(&mut self) {
        let messages = self.pool.keys.iter().chain(&self.pool.key_sample).copied();
        match self.asked.full == self.asked.plain {
            true => dense::meet(&mut [&mut self.plain], messages),
            false => dense::meet(&mut [&mut self.plain, &mut self.full], messages),
        }
    }

    /// Whether a prior can be anything but zero for this question.
    fn matters(&self, signal: KeySignal) -> bool {
        use KeySignal::*;
        let question = self.asked.question;
        match signal {
            Speaker => self.asked.speaker.is_some(),
            When => question.when,
            Number => question.many,
            Date => question.is_dated(),
            Place => question.place,
            Title => question.title,
            InstructsRequest | PrefersRequest => question.kind.req,
            DigitsPast | CapitalsPast => !question.kind.req,
            _ => true,
        }
    }

    fn prior(&self, signal: KeySignal, no: DocNo) -> f32 {
        use KeySignal::*;
        let (question, card) = (self.asked.question, self.index.keys.card(no));
        let marks = card.marks;
        let flag = |set: bool| f32::from(u8::from(set));
        match signal {
            Speaker => flag(self.asked.speaker == Some(card.speaker)),
            Asks => flag(marks.asks),
            Length => priors::length(card.length),
            Long => priors::long(card.length),
            FirstPerson => flag(marks.first_person),
            Novelty => card.novelty,
            When => priors::when(question, marks),
            Number => priors::number(question, marks),
            Date => self.asked.date(card.said_at),
            Place => priors::place(question, marks, self.capitals(no)),
            Title => priors::title(question, marks, self.capitals(no)),
            Instructs => flag(marks.instructs),
            InstructsRequest => flag(marks.instructs),
            PrefersRequest => flag(marks.prefers),
            DigitsPast => f32::from(marks.digits) / 4.0,
            CapitalsPast => self.capitals(no).min(4) as f32 / 4.0,
            _ => 0.0,
        }
    }

    /// Names in a message that are no participant's.
    fn capitals(&self, no: DocNo) -> usize {
        if self.index.name_terms.is_empty() {
            return self.index.keys.card(no).capitals.into();
        }
        let capitals = self.index.keys.words(no).iter().filter(|word| word.capital());
        capitals.filter(|word| !self.is_participant(self.index.vocabulary.term_of(word.word()))).count()
    }

    fn is_participant(&self, term: TermNo) -> bool {
        self.index.name_terms.contains(&term)
    }

    /// A column of zeros unless the question is of a kind.
    fn only_if(&mut self, of_the_kind: bool, signal: KeySignal) -> Vec<f32> {
        if of_the_kind { self.column(signal).to_vec() } else { vec![0.0; self.pool.keys.len()] }
    }

    /// Scores of messages with their neighbours: of all where all are scored.
    fn around(&self, around: Around) -> Scores {
        let of = (!self.pool.key_sample.is_empty()).then_some(&self.pool.keys[..]);
        lexical::around(self.index, &self.words.terms, around, of)
    }

    /// Scores of all messages, normalised, for those at hand.
    fn normalised(&self, scores: &Scores) -> Vec<f32> {
        let moments = scores.moments();
        self.pool.keys.iter().map(|no| moments.z(scores.of(*no))).collect()
    }

    /// Scores of sessions, normalised over all messages, for those at hand.
    fn by_session(&self) -> Vec<f32> {
        let (scores, moments) = (&self.words.sessions, self.words.moments_of_sessions(self.index));
        self.pool.keys.iter().map(|no| moments.z(scores.of(self.index.keys.card(*no).session))).collect()
    }

    /// Values that are worked out message by message, normalised over the sample.
    fn measured(&mut self, mut value: impl FnMut(&mut Self, DocNo) -> f32) -> Vec<f32> {
        let keys = std::mem::take(&mut self.pool.keys);
        let sample = std::mem::take(&mut self.pool.key_sample);
        let mut column: Vec<f32> = keys.iter().map(|no| value(self, *no)).collect();
        let moments = match sample.is_empty() {
            true => Moments::of(column.iter().copied()),
            false => Moments::of(sample.iter().map(|no| value(self, *no))),
        };
        column.iter_mut().for_each(|value| *value = moments.z(*value));
        (self.pool.keys, self.pool.key_sample) = (keys, sample);
        column
    }

    /// The own BM25 of a message near each.
    fn own_near(&mut self, near: impl Fn(&ScopeIndex, DocNo) -> Option<DocNo>) -> Vec<f32> {
        let own = &self.words.own;
        let moments = own.moments();
        let of = |no: &DocNo| near(self.index, *no).map_or(0.0, |near| moments.z(own.of(near)));
        self.pool.keys.iter().map(of).collect()
    }

    fn answers_question(&mut self) -> Vec<f32> {
        let mut column = self.own_near(before);
        for (value, no) in column.iter_mut().zip(&self.pool.keys) {
            let card = |no: DocNo| self.index.keys.card(no);
            if card(*no).before().is_none_or(|before| !card(before).marks.asks) {
                *value = 0.0;
            }
        }
        column
    }

    fn similar_before(&mut self) -> Vec<f32> {
        let sample =
            if self.pool.key_sample.is_empty() { self.pool.keys.clone() } else { self.pool.key_sample.clone() };
        let moments = Moments::of(sample.iter().map(|no| self.plain.of(*no)));
        let keys = std::mem::take(&mut self.pool.keys);
        let column = keys.iter().map(|no| match before(self.index, *no) {
            None => 0.0,
            Some(before) => moments.z(self.plain.of(before)),
        });
        let column = column.collect();
        self.pool.keys = keys;
        column
    }

    fn similar_session(&mut self) -> Vec<f32> {
        let mut docs = self.pool.keys.clone();
        docs.extend(&self.pool.key_sample);
        docs.sort_unstable();
        docs.dedup();
        let values = dense::sessions(self.index, &mut self.plain, &docs);
        self.measured(|board, no| values[board.index.keys.card(no).session as usize])
    }

    fn feedback(&mut self) -> Vec<f32> {
        let words = self.column(KeySignal::WithBefore);
        let similar = self.column(KeySignal::SimilarPlain);
        let first: Vec<(f32, DocNo)> = words
            .iter()
            .zip(similar.iter())
            .map(|(words, similar)| words + similar)
            .zip(self.pool.keys.iter().copied())
            .collect();
        let count = FEEDBACK_FROM.min(first.len());
        if count == 0 || self.asked.plain.is_none() {
            return vec![0.0; self.pool.keys.len()];
        }
        let found: Vec<DocNo> = highest(first, count).into_iter().map(|(_, no)| no).collect();
        let moved = self.asked.plain.as_ref().and_then(|plain| dense::towards(plain, &self.index.keys, &found));
        let mut moved = Dots::new(&self.index.keys, moved);
        self.measured(|_, no| moved.of(no))
    }

    /// The BM25 of the reply to each message.
    fn reply_words_of_keys(&self) -> Vec<f32> {
        let words = &self.words.replies;
        // Some messages have several replies, some replies no message: too few to matter for a mean.
        let moments = words.moments_among(self.index.keys.len());
        let of = |no: &DocNo| self.index.keys.card(*no).partner().map_or(0.0, |reply| words.of(reply));
        self.pool.keys.iter().map(|no| moments.z(of(no))).collect()
    }

    /// A signal of every reply that is scored.
    pub(crate) fn reply_column(&mut self, signal: ReplySignal) -> Vec<f32> {
        use ReplySignal::*;
        let kind = self.asked.question.kind;
        let flag = |set: bool| f32::from(u8::from(set));
        match signal {
            Base => vec![1.0; self.pool.replies.len()],
            Overview => vec![flag(kind.sum); self.pool.replies.len()],
            AsksModel => vec![flag(kind.you); self.pool.replies.len()],
            Request => vec![flag(kind.req); self.pool.replies.len()],
            Words => {
                let words = &self.words.replies;
                let moments = words.moments();
                self.pool.replies.iter().map(|no| moments.z(words.of(*no))).collect()
            }
            Similar => {
                let sample =
                    if self.pool.reply_sample.is_empty() { &self.pool.replies } else { &self.pool.reply_sample };
                let moments = Moments::of(sample.iter().map(|no| self.replies.of(*no)));
                self.pool.replies.iter().map(|no| moments.z(self.replies.of(*no))).collect()
            }
            KeyWithBefore => self.of_its_key(KeySignal::WithBefore),
            KeyLate => self.of_its_key(KeySignal::Late),
            KeyLength => self.of_its_key(KeySignal::Length),
            KeyNovelty => self.of_its_key(KeySignal::Novelty),
            Date => {
                let date = |no: &DocNo| self.asked.date(self.index.replies.card(*no).said_at);
                self.pool.replies.iter().map(date).collect()
            }
        }
    }

    /// A signal of the message that each reply answers; the pool holds those messages too.
    fn of_its_key(&mut self, signal: KeySignal) -> Vec<f32> {
        let column = self.column(signal);
        let value = |no: &DocNo| {
            let key = self.index.replies.card(*no).partner();
            key.and_then(|key| self.pool.keys.binary_search(&key).ok()).map_or(0.0, |at| column[at])
        };
        self.pool.replies.iter().map(value).collect()
    }
}

/// The message before one, in its session.
fn before(index: &ScopeIndex, no: DocNo) -> Option<DocNo> {
    index.keys.card(no).before()
}
