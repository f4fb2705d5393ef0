//! Why something is no fact: counted, and shown to whoever asks.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_word_of_its_own() {
        for reason in Refusal::ALL {
            assert_eq!(Refusal::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(Refusal::parse("because"), None);
    }
}
