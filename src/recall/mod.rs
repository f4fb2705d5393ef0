//! Recall: a question comes in, out comes what was said about it, with the reason for every item.
//!
//! No language model is asked. A scope's messages lie in memory as words, marks and vectors (`index`); a question is
//! read (`question`, `complete`), every message gets a score from many cheap signals (`signals`, `weights`, `search`),
//! the best are fetched and packed into a budget of tokens (`pack`), and written out as data (`render`). Beside messages
//! stand summaries (`episodes`) and whatever else is handed in, in layers (`layer`).
//!
//! Reading order: the nouns here, `row` (what is kept of a message), `index`, `question`, `signals`, `search`, `layer`,
//! `episodes`, `passages` (what the tenant knows), `asides`, `pack`, `assemble`, `render`, and `desk`, which puts them together; `load` brings a scope into memory, and `warm` works out
//! beforehand what questions will need. `topics` finds the topic that
//! a message belongs to.
//!
//! **Invariant:** recall reads; it never writes. The same store, clock and question give the same answer.

mod asides;
mod assemble;
mod choose;
mod complete;
mod counted;
mod desk;
mod episodes;
mod excerpt;
mod index;
mod known;
mod layer;
mod load;
mod marks;
mod pack;
mod passages;
mod plan;
pub mod question;
mod render;
mod row;
mod search;
pub mod signals;
mod stance;
mod text;
mod texts;
mod told;
mod topics;
mod vectors;
mod visit;
mod warm;
mod weights;

pub(crate) use render::recent_conversation;

pub(crate) use desk::RANKED;
pub use desk::{Recall, RecallError, RecallParts, RecallSettings};
pub use layer::{Aside, AsideSource, Considered, Layer, LayerBounds};
pub use passages::FoundPassage;
pub use topics::{PlacedQuestion, RunningTopic, TopicDesk, TopicShelf};
pub use weights::{Profile, WeightTable, Weights, WeightsError};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::id::{MessageId, SessionId, TurnId};
use crate::knowledge::Citation;
use crate::message::Role;
use crate::session::Turn;
use crate::store::Moment;

/// The bytes that recall keeps of a turn.
pub(crate) fn derive_row(turn: &Turn) -> Vec<u8> {
    row::encode(&row::rows_of(turn))
}

/// The texts of a turn that are embedded.
pub(crate) fn derive_texts(turn: &Turn) -> Vec<String> {
    row::texts_of(turn)
}

/// The bytes of a turn's vectors.
pub(crate) fn encode_vectors(vectors: &[Vec<f32>]) -> Vec<u8> {
    vectors::encode(vectors)
}

/// The form of rows that this build makes.
pub(crate) fn row_form() -> String {
    format!("rows-{}", row::ROW_FORM)
}

/// What is to be recalled.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// The question, as it was asked.
    pub question: String,
    /// The running conversation: what a follow-up refers to.
    pub session: Option<SessionId>,
    /// The running conversation's texts, oldest first, in place of what is stored of it.
    pub running: Option<Vec<String>>,
    /// The place whose topic the question may go on with; `None` is the end of the running conversation.
    pub follows: Option<Moment>,
    /// The topic that the question goes on with.
    pub topic: Option<RunningTopic>,
    /// The last turns of an older topic that the question returns to. They are shown whatever else is found.
    pub returns_to: Vec<TurnId>,
    /// When it is asked; `None` is now.
    pub asked_at: Option<Timestamp>,
    /// The asker's time zone, for "yesterday"; `None` is UTC.
    pub zone: Option<TimeZone>,
    /// Nothing that was said before this.
    pub from: Option<Timestamp>,
    /// Nothing that was said at this time or later.
    pub to: Option<Timestamp>,
    /// Tokens the rendered context may take.
    pub tokens_max: usize,
    /// The kind of chat; `None` is told by who speaks in it.
    pub profile: Option<Profile>,
    /// Turns the model is shown anyway: they are found, but not repeated.
    pub shown: Vec<TurnId>,
    /// The same as stretches of conversations: summaries of such turns are not repeated either.
    pub shown_ranges: Vec<TurnRange>,
    /// Turns that are being taken back: a summary that tells of any of them is not shown.
    pub taken_back: Vec<TurnRange>,
    /// What is to be laid before the model beside what is found, in its layers.
    pub asides: Vec<Aside>,
    /// Most messages that are ranked, each with what its signals contributed; 0 is as many as can be packed, of which those
    /// that a trace keeps have that.
    pub ranked_max: usize,
}

/// Turns of a conversation that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnRange {
    /// The conversation.
    pub session: SessionId,
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
}

/// A message that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// The message.
    pub message: MessageId,
    /// Its score; only comparable within one answer.
    pub score: f32,
    /// What each signal contributed.
    pub signals: Vec<(&'static str, f32)>,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a message or a summary that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is in the context.
    Kept,
    /// The model is shown it anyway.
    Shown,
    /// It has nothing to do with the question: it was the best of what there is.
    Unrelated,
    /// It says what another one says.
    Duplicate,
    /// Others are nearer to the question, and there are enough of them.
    Surplus,
    /// There was no room for it.
    OverBudget,
    /// Its text could not be read.
    Unreadable,
}

impl Fate {
    /// The word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Shown => "shown anyway",
            Self::Unrelated => "unrelated",
            Self::Duplicate => "duplicate",
            Self::Surplus => "not among the best",
            Self::OverBudget => "over budget",
            Self::Unreadable => "unreadable",
        }
    }
}

/// One recalled item.
#[derive(Debug, Clone, PartialEq)]
pub struct Reminder {
    /// The message it is from.
    pub message: MessageId,
    /// The conversation it is from.
    pub session: SessionId,
    /// Who said it.
    pub role: Role,
    /// Their name, if they have one.
    pub name: Option<String>,
    /// When it was said.
    pub said_at: Timestamp,
    /// What was said, or the passage of it that matters.
    pub text: String,
    /// Whether that is only a part of the message.
    pub excerpt: bool,
    /// What holds now, where it says what is no longer so.
    pub note: Option<String>,
    /// Why it is there.
    pub reason: Reason,
    /// Its tokens, as rendered.
    pub tokens: usize,
    /// The score of the message that brought it.
    pub score: f32,
}

/// Why an item is in the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It was found.
    Hit,
    /// It is the reply to one that was found.
    Reply,
    /// It stands beside one that was found.
    Neighbour,
    /// It is among the last of the topic that the question returns to.
    Topic,
}

impl Reason {
    /// The word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Reply => "reply",
            Self::Neighbour => "neighbour",
            Self::Topic => "topic",
        }
    }
}

/// What was recalled for a question.
#[derive(Debug, Clone, Default)]
pub struct Recalled {
    /// What was found, best first.
    pub ranked: Vec<Ranked>,
    /// What was packed, in the order in which it is rendered.
    pub reminders: Vec<Reminder>,
    /// What was considered beside messages, layer by layer.
    pub asides: Vec<Considered>,
    /// The context as text; empty for nothing.
    pub text: String,
    /// Its tokens.
    pub tokens: usize,
    /// The kind of chat that was assumed.
    pub profile: Option<Profile>,
    /// The question that was searched for, when it was completed.
    pub completed: Option<String>,
    /// Whether vectors took part.
    pub with_vectors: bool,
    /// Messages that were searched.
    pub searched: usize,
}

impl Recalled {
    /// Nothing but a line that was known beforehand, if it fits.
    pub(crate) fn alone(aside: Aside, tokens_max: usize) -> Self {
        let text = render::alone(&aside);
        let tokens = crate::tokens::count(&text);
        if tokens > tokens_max {
            return Self::default();
        }
        Self { asides: vec![Considered { aside, fate: Fate::Kept, tokens }], text, tokens, ..Self::default() }
    }

    /// There was no place for it after all.
    pub(crate) fn leave_out(&mut self) {
        self.reminders.clear();
        self.asides.iter_mut().filter(|considered| considered.is_kept()).for_each(|left| left.fate = Fate::OverBudget);
        self.text.clear();
        self.tokens = 0;
    }

    /// What the context was drawn from that the tenant knows, in the order in which it is shown.
    pub fn citations(&self) -> Vec<Citation> {
        let kept = self.asides.iter().filter(|considered| considered.is_kept());
        let cited = kept.filter_map(|kept| match &kept.aside.source {
            AsideSource::Passage(citation) => Some(citation.clone()),
            _ => None,
        });
        cited.collect()
    }

    /// How many things were packed.
    pub fn items(&self) -> usize {
        self.reminders.len() + self.asides.iter().filter(|considered| considered.is_kept()).count()
    }
}

/// Every signal of every message for a question, for learning weights.
#[derive(Debug, Clone, Default)]
pub struct SignalTable {
    /// The messages.
    pub messages: Vec<MessageId>,
    /// Names of the columns: `key:…` and `reply:…`.
    pub names: Vec<String>,
    /// A row for each message.
    pub rows: Vec<Vec<f32>>,
}
