//! Whether a proposal becomes a fact. Rules, the same for whoever proposes: patterns or a model.

use super::{CONFIDENCE_MIN, Heard, IMPORTANCE_MIN, Proposal, Status, VALUE_BYTES_MAX};

/// Sure enough to hold, not sure enough to contradict: below this a fact is provisional.
pub const ACTIVE_CONFIDENCE_MIN: f64 = 0.7;

/// What becomes of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is held, with this status.
    Admit(Status),
    /// It is kept from every prompt until somebody looked at it.
    Quarantine(Refusal),
    /// It is not kept.
    Refuse(Refusal),
}

/// Why something is no fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// More than a short statement.
    TooLong,
    /// Nothing is left of the value.
    Empty,
    /// It was asked, not said.
    Question,
    /// It belongs to a text that we are to work on.
    TaskText,
    /// It tells a model what to do, and is not the user's own wish.
    InstructionLike,
    /// A password, a key, a card.
    SecretLike,
    /// The model's own words, come back.
    OwnWords,
    /// True for the moment only.
    Temporary,
    /// True once.
    Past,
    /// Supposed, wished, played.
    Hypothetical,
    /// Said not to be so.
    Negated,
    /// Somebody else's words.
    Quoted,
    /// Program text.
    Code,
    /// Pasted from elsewhere: a mail, a log, a file, a tool's output.
    Pasted,
    /// Mentioned in passing, not stated.
    Aside,
    /// About somebody else.
    NotFirstPerson,
    /// The words it is said to come from are not in the message.
    NotSaid,
    /// Not sure enough.
    LowConfidence,
    /// It does not matter enough.
    Unimportant,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::TooLong,
        Self::Empty,
        Self::Question,
        Self::TaskText,
        Self::InstructionLike,
        Self::SecretLike,
        Self::OwnWords,
        Self::Temporary,
        Self::Past,
        Self::Hypothetical,
        Self::Negated,
        Self::Quoted,
        Self::Code,
        Self::Pasted,
        Self::Aside,
        Self::NotFirstPerson,
        Self::NotSaid,
        Self::LowConfidence,
        Self::Unimportant,
    ];

    /// The word used on the wire and for counting.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Empty => "empty",
            Self::Question => "question",
            Self::TaskText => "task_text",
            Self::InstructionLike => "instruction_like",
            Self::SecretLike => "secret_like",
            Self::OwnWords => "own_words",
            Self::Temporary => "temporary",
            Self::Past => "past",
            Self::Hypothetical => "hypothetical",
            Self::Negated => "negated",
            Self::Quoted => "quoted",
            Self::Code => "code",
            Self::Pasted => "pasted",
            Self::Aside => "aside",
            Self::NotFirstPerson => "not_first_person",
            Self::NotSaid => "not_said",
            Self::LowConfidence => "low_confidence",
            Self::Unimportant => "unimportant",
        }
    }

    /// Reads the word written by [`Refusal::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

/// Decides about a proposal by the message that it is said to come from.
pub fn admit(proposal: &Proposal, heard: &Heard<'_>) -> Verdict {
    let refused = [
        (VALUE_BYTES_MAX < proposal.value.len(), Refusal::TooLong),
        (!heard.text.contains(&proposal.quote), Refusal::NotSaid),
        (proposal.confidence < CONFIDENCE_MIN, Refusal::LowConfidence),
        (proposal.importance < IMPORTANCE_MIN, Refusal::Unimportant),
    ];
    match refused.into_iter().find(|(is, _)| *is) {
        Some((_, reason)) => Verdict::Refuse(reason),
        None if proposal.confidence < ACTIVE_CONFIDENCE_MIN => Verdict::Admit(Status::Provisional),
        None => Verdict::Admit(Status::Active),
    }
}
