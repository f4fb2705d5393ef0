//! Signals: cheap numbers that each say a little about whether a message answers a question.
//!
//! `Board` computes them column by column for a set of messages; scores of words and vectors are normalised over all
//! messages of the scope (`z`), priors are taken as they are. A linear mix of the columns is the score; see `weights`.
//!
//! Reading order: the lists of signals here, `lexical` (with the tables that all others use), `dense`, `late`, `priors`, then `board`.

mod asked;
mod board;
pub(crate) mod dense;
pub(crate) mod late;
pub(crate) mod lexical;
pub(crate) mod priors;

pub(crate) use asked::{Asked, QuestionVectors, WordScores, highest};
pub(crate) use board::{Board, Pool};
pub(crate) use lexical::Marked;

macro_rules! signals {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$about])* $variant,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name in the weights file and in traces.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Reads a name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|signal| signal.name() == name)
            }
        }
    };
}

signals! {
    /// Signals of a message that a person wrote.
    KeySignal {
        /// BM25 of its own words, without names in the question.
        Own = "bm25n",
        /// BM25 with the speaker's name as a word, names in the question included.
        WithNames = "bm25",
        /// BM25 of it and the message before.
        WithBefore = "bm25_prev",
        /// BM25 of it and both neighbours.
        WithBoth = "bm25_win",
        /// The own BM25 of the message two before it.
        TwoBefore = "bm25n@-2",
        /// BM25 of its session.
        Session = "bm25_sess",
        /// The own BM25 of the message before, if that one asks.
        AnswersQuestion = "prevq",
        /// Share of the question's weight whose terms are in it.
        Coverage = "cov",
        /// Similarity to the question with names.
        Similar = "dA",
        /// Similarity to the question without names.
        SimilarPlain = "dAn",
        /// That, of the message before.
        SimilarBefore = "dAn@-1",
        /// That, of a list or overview question only.
        SimilarList = "dAn~list",
        /// Similarity of its surroundings.
        SimilarWindow = "d_win5",
        /// Similarity of its session's best messages.
        SimilarSession = "d_sess",
        /// Similarity to the question moved towards what was found first.
        Feedback = "d_prf",
        /// Late interaction.
        Late = "li",
        /// Late interaction, for a list or overview question only.
        LateList = "li~list",
        /// BM25 of the model's reply to it.
        ReplyWords = "r_bm",
        /// Similarity of the model's reply to it.
        ReplySimilar = "r_d",
        /// By the person the question is about.
        Speaker = "spk",
        /// It asks.
        Asks = "isq",
        /// Its length.
        Length = "len",
        /// Its length, for a list or overview question only.
        LengthList = "len~list",
        /// How much longer than thirty words.
        Long = "long",
        /// It speaks in the first person.
        FirstPerson = "fp",
        /// Share of its words that were new.
        Novelty = "nov",
        /// That, for a list or overview question only.
        NoveltyList = "nov~list",
        /// When is asked, and it names a time.
        When = "when",
        /// How many is asked, and it has a number.
        Number = "num",
        /// It was said at the time asked about.
        Date = "date",
        /// Where is asked, and it names a place.
        Place = "where",
        /// A name or title is asked, and it has one.
        Title = "name",
        /// It says how to answer from now on.
        Instructs = "ins",
        /// That, when something new is asked for.
        InstructsRequest = "ins~req",
        /// It says what its speaker prefers, when something new is asked for.
        PrefersRequest = "pref~req",
        /// It has numbers, when nothing new is asked for.
        DigitsPast = "dig~past",
        /// It has names, when nothing new is asked for.
        CapitalsPast = "cap~past",
    }
}

signals! {
    /// Signals of a reply by the model.
    ReplySignal {
        /// The same for every reply: how replies stand against messages.
        Base = "base",
        /// An overview is asked for.
        Overview = "sum",
        /// What the model said is asked for.
        AsksModel = "you",
        /// Something new is asked for.
        Request = "req",
        /// BM25 of its words.
        Words = "r_bm",
        /// Similarity to the question.
        Similar = "r_d",
        /// BM25 of the message it answers, with the one before.
        KeyWithBefore = "bm25_prev",
        /// Late interaction of the message it answers.
        KeyLate = "li",
        /// The length of the message it answers.
        KeyLength = "len",
        /// How new the message it answers was.
        KeyNovelty = "nov",
        /// It was said at the time asked about.
        Date = "date",
    }
}

impl KeySignal {
    /// Whether it costs much for each message: in a large scope only the best by all others are worth that.
    pub(crate) fn is_costly(self) -> bool {
        use KeySignal::*;
        matches!(
            self,
            Late | LateList | SimilarWindow | SimilarSession | Feedback | ReplySimilar | WithBefore | WithBoth
        )
    }

    /// Whether it can only be computed with vectors.
    pub fn needs_vectors(self) -> bool {
        use KeySignal::*;
        matches!(
            self,
            Similar
                | SimilarPlain
                | SimilarBefore
                | SimilarList
                | SimilarWindow
                | SimilarSession
                | Feedback
                | Late
                | LateList
                | ReplySimilar
        )
    }
}

impl ReplySignal {
    /// Whether it can only be computed with vectors.
    pub fn needs_vectors(self) -> bool {
        matches!(self, Self::Similar | Self::KeyLate)
    }
}

/// Mean and spread of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moments {
    mean: f64,
    spread: f64,
}

impl Moments {
    /// Of all values.
    pub(crate) fn of(values: impl Iterator<Item = f32>) -> Self {
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0);
        for value in values.map(f64::from) {
            sum += value;
            squares += value * value;
            count += 1;
        }
        Self::told(sum, squares, count)
    }

    /// Of `count` values, of which all but these are zero; each comes with how often it is there.
    pub(crate) fn with_zeros(others: impl Iterator<Item = (f32, usize)>, count: usize) -> Self {
        let (mut sum, mut squares) = (0.0, 0.0);
        for (value, times) in others {
            let (value, times) = (f64::from(value), times as f64);
            sum += value * times;
            squares += value * value * times;
        }
        Self::told(sum, squares, count)
    }

    /// Of `count` values that add up to this, and whose squares do.
    pub(crate) fn told(sum: f64, squares: f64, count: usize) -> Self {
        if count == 0 {
            return Self { mean: 0.0, spread: 0.0 };
        }
        let mean = sum / count as f64;
        Self { mean, spread: (squares / count as f64 - mean * mean).max(0.0).sqrt() }
    }

    /// How many spreads one is: where values are only compared with each other, the mean does not matter. Nothing where all are the same.
    pub(crate) fn of_one(self) -> f32 {
        if self.spread < 1e-3 { 0.0 } else { (1.0 / self.spread) as f32 }
    }

    /// A value as a number of spreads above the mean.
    #[inline]
    pub(crate) fn z(self, value: f32) -> f32 {
        ((f64::from(value) - self.mean) / (self.spread + 1e-6)) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for signal in KeySignal::ALL {
            assert_eq!(KeySignal::parse(signal.name()), Some(*signal));
        }
        for signal in ReplySignal::ALL {
            assert_eq!(ReplySignal::parse(signal.name()), Some(*signal));
        }
    }

    #[test]
    fn normalised_values_have_mean_zero_and_spread_one() {
        let values = [1.0, 2.0, 3.0, 6.0];
        let moments = Moments::of(values.into_iter());
        let again = Moments::of(values.into_iter().map(|value| moments.z(value)));
        assert!(again.mean.abs() < 1e-5 && (again.spread - 1.0).abs() < 1e-4, "{again:?}");
        assert_eq!(Moments::of(std::iter::empty()).z(0.0), 0.0);
    }

    #[test]
    fn zeros_need_not_be_counted_one_by_one() {
        let all = Moments::of([0.0, 2.0, 0.0, 5.0, 2.0, 0.0].into_iter());
        assert_eq!(Moments::with_zeros([(2.0, 2), (5.0, 1)].into_iter(), 6), all);
    }
}
