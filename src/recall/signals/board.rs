//! The signals of one question, column by column.

use std::collections::HashMap;
use std::rc::Rc;

use jiff::tz::TimeZone;

use super::dense::{self, Dots};
use super::late::{AskedWord, Late};
use super::lexical::{self, Around, AskedTerm, Wanted, idf};
use super::{KeySignal, Moments, ReplySignal, priors};
use crate::language::{Tongue, is_stop, term, words};
use crate::recall::complete::Added;
use crate::recall::index::ScopeIndex;
use crate::recall::index::docs::{DocNo, NONE};
use crate::recall::index::kernel::{Bytes, quantise};
use crate::recall::index::vocabulary::{TermNo, Vocabulary, WORD_DIMENSIONS, word_vector};
use crate::recall::question::Question;
use crate::recall::search::EXACT_MAX;

/// Messages that pull the question's vector towards them.
const FEEDBACK_FROM: usize = 3;
/// A message that answers to less of the question than this, and is not near it either, is only the best of what there is.
const LATE_MIN: f32 = 0.25;
/// More words of a question than this are not told apart.
const WORDS_MAX: usize = 64;

/// A question in the words and vectors of one scope.
pub(crate) struct Asked<'a> {
    pub(crate) question: &'a Question,
    pub(crate) zone: TimeZone,
    terms: Vec<AskedTerm>,
    /// Terms with the speakers whose name they are.
    named: Vec<(Wanted, Vec<u16>)>,
    words: Vec<AskedWord>,
    /// The vectors of those words, one behind the other.
    word_vectors: Vec<i8>,
    /// The person the question is about, if it names one.
    speaker: Option<u16>,
    full: Option<Bytes>,
    plain: Option<Bytes>,
}

/// The vectors of a question: as asked, and without names.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuestionVectors {
    pub(crate) full: Option<Vec<f32>>,
    pub(crate) plain: Option<Vec<f32>>,
}

impl<'a> Asked<'a> {
    /// Reads a question's text and what was added to it in the words of a scope. `participants` are speakers' numbers
    /// in the order in which the question was read with their names, 0 for who does not speak in it.
    pub(crate) fn new(
        index: &ScopeIndex,
        question: &'a Question,
        text: &str,
        added: &Added,
        participants: &[u16],
        vectors: &QuestionVectors,
        zone: TimeZone,
    ) -> Self {
        let names = name_terms(index, participants);
        let speaker = match question.named[..] {
            [one] => participants.get(one).copied().filter(|speaker| *speaker != 0),
            _ => None,
        };
        let mut asked = Self {
            question,
            zone,
            terms: Vec::new(),
            named: Vec::new(),
            words: Vec::new(),
            word_vectors: Vec::new(),
            speaker,
            full: vectors.full.as_deref().and_then(quantise),
            plain: vectors.plain.as_deref().and_then(quantise),
        };
        let own = words(text).map(|word| (word, 1.0));
        let added = added.words.iter().map(|word| (std::borrow::Cow::from(word.as_str()), added.share));
        let mut seen: Vec<String> = Vec::new();
        for (word, share) in own.chain(added).filter(|(word, _)| !is_stop(word, question.tongue)).take(WORDS_MAX) {
            let stem = term(&word, question.tongue);
            if !seen.contains(&stem) {
                asked.add(index, &word, &stem, share, &names);
                seen.push(stem);
            }
        }
        asked
    }

    fn add(&mut self, index: &ScopeIndex, word: &str, stem: &str, share: f64, names: &[(String, u16)]) {
        let tongue = self.question.tongue;
        let found = find_term(&index.vocabulary, word, stem, tongue);
        let speakers: Vec<u16> = names.iter().filter(|(name, _)| name == stem).map(|(_, speaker)| *speaker).collect();
        let is_name = !speakers.is_empty();
        self.terms.push(AskedTerm { term: found, is_name, share });
        if let Some(term) = found {
            self.named.push(((term, share), speakers));
        }
        if !is_name {
            let with_it = found.map_or(0, |term| index.keys.postings(term).len());
            let scale = word_vector(word, tongue, &mut self.word_vectors).unwrap_or(0.0);
            let idf = (share * idf(index.keys.len(), with_it)) as f32;
            self.words.push(AskedWord { term: found, scale, idf });
            self.word_vectors.resize(self.words.len() * WORD_DIMENSIONS, 0);
        }
    }

    /// The terms to look for. In a large scope a term that a quarter of all messages use tells little and costs much: it
    /// is passed over, unless there is no rarer one.
    fn plain_terms(&self, index: &ScopeIndex) -> Vec<Wanted> {
        let plain = self.terms.iter().filter(|asked| !asked.is_name);
        let all: Vec<Wanted> = plain.filter_map(|asked| Some((asked.term?, asked.share))).collect();
        let uses = |wanted: &Wanted| index.keys.postings(wanted.0).len();
        let common = |wanted: &Wanted| index.keys.len() > EXACT_MAX && 4 * uses(wanted) > index.keys.len();
        let rare: Vec<Wanted> = all.iter().copied().filter(|wanted| !common(wanted)).collect();
        match all.iter().min_by_key(|wanted| uses(wanted)) {
            Some(rarest) if rare.is_empty() => vec![*rarest],
            _ => rare,
        }
    }

    /// BM25 of every message with the one before it, and of its session: what chooses candidates by words.
    pub(crate) fn word_scores(&self, index: &ScopeIndex) -> Vec<f32> {
        let terms = self.plain_terms(index);
        let mut scores = lexical::around(index, &terms, Around::Before);
        let sessions = lexical::sessions(index, &terms);
        let found = scores.iter_mut().zip(&index.keys.sessions).filter(|(score, _)| **score > 0.0);
        found.for_each(|(score, session)| *score += sessions[*session as usize]);
        scores
    }

    /// BM25 of every reply.
    pub(crate) fn reply_scores(&self, index: &ScopeIndex) -> Vec<f32> {
        lexical::own(&index.replies, &self.plain_terms(index))
    }

    /// The question's words, looking for their nearest.
    pub(crate) fn late<'i>(&self, index: &'i ScopeIndex) -> Late<'i> {
        Late::new(index, self.words.clone(), self.word_vectors.clone())
    }

    /// The question's vector without names.
    pub(crate) fn plain(&self) -> Option<&Bytes> {
        self.plain.as_ref()
    }
}

/// A term as the scope knows it: by the question's language, else by the same word in another.
fn find_term(vocabulary: &Vocabulary, word: &str, stem: &str, tongue: Tongue) -> Option<TermNo> {
    let elsewhere = || {
        let others = Tongue::ALL.into_iter().filter(|other| *other != tongue);
        others.filter_map(|other| vocabulary.word(word, other)).map(|word| vocabulary.term_of(word)).next()
    };
    vocabulary.term(stem).or_else(elsewhere)
}

/// The stems of participants' names.
fn name_terms(index: &ScopeIndex, participants: &[u16]) -> Vec<(String, u16)> {
    let mut names = Vec::new();
    for speaker in participants {
        for word in words(&index.speakers[*speaker as usize]) {
            names.push((term(&word, Tongue::English), *speaker));
        }
    }
    names
}

/// Which messages are scored, and which give the measure.
pub(crate) struct Pool {
    pub(crate) keys: Vec<DocNo>,
    pub(crate) replies: Vec<DocNo>,
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
    terms: Vec<Wanted>,
    own: Option<Vec<f32>>,
    reply_words: Option<Vec<f32>>,
    plain: Dots<'a>,
    replies: Dots<'a>,
    late: Late<'a>,
    /// Columns that were worked out already: several signals are made of others.
    columns: HashMap<KeySignal, Rc<Vec<f32>>>,
}

impl<'a> Board<'a> {
    pub(crate) fn new(index: &'a ScopeIndex, asked: &'a Asked<'a>, pool: Pool) -> Self {
        Self {
            index,
            asked,
            pool,
            terms: asked.plain_terms(index),
            own: None,
            reply_words: None,
            plain: Dots::new(&index.keys, asked.plain.clone()),
            replies: Dots::new(&index.replies, asked.plain.clone()),
            late: asked.late(index),
            columns: HashMap::new(),
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

    /// Whether a message has anything to do with the question: it shares a word with it or means something near, was
    /// said at the time asked about, or says how such requests are to be answered.
    pub(crate) fn is_related(&mut self, is_key: bool, no: DocNo, near: f32) -> bool {
        let (docs, at) = if is_key { (&self.index.keys, no as usize) } else { (&self.index.replies, no as usize) };
        let question = self.asked.question;
        let marks = docs.marks[at];
        let similar = if is_key { self.plain.of(no) } else { self.replies.of(no) };
        similar >= near
            || self.late.of(docs, no) >= LATE_MIN
            || priors::date(question, docs.said_at[at], &self.asked.zone) > 0.0
            || (is_key && question.kind.req && (marks.instructs || marks.prefers))
            || (question.kind.list && !self.terms.is_empty())
    }

    /// A signal of every message that is scored.
    pub(crate) fn column(&mut self, signal: KeySignal) -> Rc<Vec<f32>> {
        if let Some(column) = self.columns.get(&signal) {
            return Rc::clone(column);
        }
        let column = Rc::new(self.work_out(signal));
        self.columns.insert(signal, Rc::clone(&column));
        column
    }

    fn work_out(&mut self, signal: KeySignal) -> Vec<f32> {
        use KeySignal::*;
        let kind = self.asked.question.kind;
        match signal {
            Own => self.own_near(|_, no| no),
            WithNames => self.normalised(&lexical::with_names(self.index, &self.asked.named)),
            WithBefore => self.normalised(&lexical::around(self.index, &self.terms, Around::Before)),
            WithBoth => self.normalised(&lexical::around(self.index, &self.terms, Around::Both)),
            TwoBefore => self.own_near(|index, no| before(index, before(index, no))),
            Session => self.by_session(&lexical::sessions(self.index, &self.terms)),
            AnswersQuestion => self.answers_question(),
            Coverage => {
                let covered = lexical::coverage(&self.index.keys, &self.asked.terms);
                self.pool.keys.iter().map(|no| covered[*no as usize]).collect()
            }
            Similar => {
                let mut full = Dots::new(&self.index.keys, self.asked.full.clone());
                self.measured(|_, no| full.of(no))
            }
            SimilarPlain => self.measured(|board, no| board.plain.of(no)),
            SimilarBefore => self.similar_before(),
            SimilarList => self.only_if(kind.list, SimilarPlain),
            SimilarWindow => self.measured(|board, no| dense::window(board.index, &mut board.plain, no)),
            SimilarSession => self.similar_session(),
            Feedback => self.feedback(),
            Late => self.measured(|board, no| board.late.of(&board.index.keys, no)),
            LateList => self.only_if(kind.list, Late),
            ReplyWords => self.reply_words_of_keys(),
            ReplySimilar => self.measured(|board, no| match board.index.key.reply[no as usize] {
                NONE => 0.0,
                reply => board.replies.of(reply),
            }),
            LengthList => self.only_if(kind.list, Length),
            NoveltyList => self.only_if(kind.list, Novelty),
            _ => self.pool.keys.iter().map(|no| self.prior(signal, *no)).collect(),
        }
    }

    fn prior(&self, signal: KeySignal, no: DocNo) -> f32 {
        use KeySignal::*;
        let at = no as usize;
        let (question, marks) = (self.asked.question, self.index.keys.marks[at]);
        let flag = |set: bool| f32::from(u8::from(set));
        match signal {
            Speaker => flag(self.asked.speaker == Some(self.index.keys.speakers[at])),
            Asks => flag(marks.asks),
            Length => priors::length(self.index.keys.lengths[at]),
            Long => priors::long(self.index.keys.lengths[at]),
            FirstPerson => flag(marks.first_person),
            Novelty => self.index.key.novelty[at],
            When => priors::when(question, marks),
            Number => priors::number(question, marks),
            Date => priors::date(question, self.index.keys.said_at[at], &self.asked.zone),
            Place if question.place => priors::place(question, marks, self.capitals(no)),
            Title if question.title => priors::title(question, marks, self.capitals(no)),
            Instructs => flag(marks.instructs),
            InstructsRequest => flag(marks.instructs && question.kind.req),
            PrefersRequest => flag(marks.prefers && question.kind.req),
            DigitsPast if !question.kind.req => f32::from(marks.digits) / 4.0,
            CapitalsPast if !question.kind.req => self.capitals(no).min(4) as f32 / 4.0,
            _ => 0.0,
        }
    }

    /// Names in a message that are no participant's.
    fn capitals(&self, no: DocNo) -> usize {
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

    /// Scores of all messages, normalised, for those at hand.
    fn normalised(&self, values: &[f32]) -> Vec<f32> {
        let moments = Moments::of(values.iter().copied());
        self.pool.keys.iter().map(|no| moments.z(values[*no as usize])).collect()
    }

    /// Scores of sessions, normalised over all messages, for those at hand.
    fn by_session(&self, values: &[f32]) -> Vec<f32> {
        let sessions = &self.index.keys.sessions;
        let moments = Moments::of(sessions.iter().map(|session| values[*session as usize]));
        self.pool.keys.iter().map(|no| moments.z(values[sessions[*no as usize] as usize])).collect()
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

    fn take_own(&mut self) -> Vec<f32> {
        self.own.take().unwrap_or_else(|| lexical::own(&self.index.keys, &self.terms))
    }

    /// The own BM25 of a message near each.
    fn own_near(&mut self, near: impl Fn(&ScopeIndex, DocNo) -> DocNo) -> Vec<f32> {
        let own = self.take_own();
        let moments = Moments::of(own.iter().copied());
        let of = |no: &DocNo| match near(self.index, *no) {
            NONE => 0.0,
            near => moments.z(own[near as usize]),
        };
        let column = self.pool.keys.iter().map(of).collect();
        self.own = Some(own);
        column
    }

    fn answers_question(&mut self) -> Vec<f32> {
        let mut column = self.own_near(before);
        for (value, no) in column.iter_mut().zip(&self.pool.keys) {
            let before = before(self.index, *no);
            if before == NONE || !self.index.keys.marks[before as usize].asks {
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
            NONE => 0.0,
            before => moments.z(self.plain.of(before)),
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
        self.measured(|board, no| values[board.index.keys.sessions[no as usize] as usize])
    }

    fn feedback(&mut self) -> Vec<f32> {
        let words = self.column(KeySignal::WithBefore);
        let similar = self.column(KeySignal::SimilarPlain);
        let mut first: Vec<(f32, DocNo)> = words
            .iter()
            .zip(similar.iter())
            .map(|(words, similar)| words + similar)
            .zip(self.pool.keys.iter().copied())
            .collect();
        let count = FEEDBACK_FROM.min(first.len());
        if count == 0 || self.asked.plain.is_none() {
            return vec![0.0; self.pool.keys.len()];
        }
        first.select_nth_unstable_by(count - 1, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let found: Vec<DocNo> = first[..count].iter().map(|(_, no)| *no).collect();
        let moved = self.asked.plain.as_ref().and_then(|plain| dense::towards(plain, &self.index.keys, &found));
        let mut moved = Dots::new(&self.index.keys, moved);
        self.measured(|_, no| moved.of(no))
    }

    fn take_reply_words(&mut self) -> Vec<f32> {
        self.reply_words.take().unwrap_or_else(|| lexical::own(&self.index.replies, &self.terms))
    }

    fn reply_words_of_keys(&mut self) -> Vec<f32> {
        let words = self.take_reply_words();
        let of = |reply: &DocNo| if *reply == NONE { 0.0 } else { words[*reply as usize] };
        let column = self.normalised(&self.index.key.reply.iter().map(of).collect::<Vec<f32>>());
        self.reply_words = Some(words);
        column
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
                let words = self.take_reply_words();
                let moments = Moments::of(words.iter().copied());
                let column = self.pool.replies.iter().map(|no| moments.z(words[*no as usize])).collect();
                self.reply_words = Some(words);
                column
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
                let date = |no: &DocNo| {
                    priors::date(self.asked.question, self.index.replies.said_at[*no as usize], &self.asked.zone)
                };
                self.pool.replies.iter().map(date).collect()
            }
        }
    }

    /// A signal of the message that each reply answers; the pool holds those messages too.
    fn of_its_key(&mut self, signal: KeySignal) -> Vec<f32> {
        let column = self.column(signal);
        let value = |no: &DocNo| {
            let key = self.index.answers[*no as usize];
            self.pool.keys.binary_search(&key).map_or(0.0, |at| column[at])
        };
        self.pool.replies.iter().map(value).collect()
    }
}

fn before(index: &ScopeIndex, no: DocNo) -> DocNo {
    if no == NONE { NONE } else { index.key.before[no as usize] }
}
