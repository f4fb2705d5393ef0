//! Clarifications: a question that offers a choice, and what an answer to it means.
//!
//! "Which one: the blue mug or the red one?" – "the second" – and everybody knows what was meant. A clarification is
//! held for a few minutes, in memory, beside the conversation; it is no part of what is remembered.
//!
//! Reading order: the nouns here, `detect` (a reply to the choice it ends in; `list` and `inline` read its options),
//! `resolve` (an answer to the options it means; `compare` knows the cheaper one, `close` a mistyped one), `tell` (what was
//! chosen, in words). `table` has the words of each language, in files beside it.
//!
//! **Invariant:** in doubt nothing is resolved. An answer that is none is a question like any other.

mod close;
mod compare;
mod detect;
mod inline;
mod list;
mod resolve;
mod table;
mod tell;
#[cfg(test)]
mod tests;

pub use detect::{Heard, hear};
pub use resolve::resolve;
pub use tell::{Chosen, chosen};

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use crate::session::{TextError, check_text};

/// Fewest options that are a choice, and most that are kept.
pub const OPTIONS_MIN: usize = 2;
/// Most options.
pub const OPTIONS_MAX: usize = 20;
/// Longest question, in characters.
pub const QUESTION_CHARS_MAX: usize = 500;
/// Longest label, name or value of an attribute, in characters.
pub const LABEL_CHARS_MAX: usize = 200;
/// Most attributes of an option.
pub const ATTRIBUTES_MAX: usize = 16;
/// Most characters of question, labels and attributes together.
pub const TEXT_CHARS_MAX: usize = 4_000;

/// A question that waits for a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clarification {
    /// What was asked.
    pub question: String,
    /// What there is to choose from.
    pub options: Vec<ChoiceOption>,
    /// When it was asked.
    pub asked_at: Timestamp,
}

/// One of the things to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChoiceOption {
    /// What it is called.
    pub label: String,
    /// What else is known of it: colour, price.
    pub attributes: BTreeMap<String, String>,
}

impl ChoiceOption {
    /// An option of which nothing but its name is known.
    pub fn named(label: impl Into<String>) -> Self {
        Self { label: label.into(), attributes: BTreeMap::new() }
    }
}

/// Why something is no clarification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClarificationError {
    /// A text is not acceptable.
    #[error("{field} {reason}")]
    Text {
        /// Which.
        field: String,
        /// Why not.
        reason: TextError,
    },
    /// No choice, or too much of one.
    #[error("{0} options were given, a choice has from {OPTIONS_MIN} to {OPTIONS_MAX}")]
    Options(usize),
    /// Two options cannot be told apart.
    #[error("two options are called `{0}`; give each a name of its own")]
    Twins(String),
    /// Too much is said of an option.
    #[error("options[{at}] has {count} attributes, at most {ATTRIBUTES_MAX} are allowed")]
    Attributes {
        /// Of which one.
        at: usize,
        /// How many.
        count: usize,
    },
    /// All of it together is too long.
    #[error("question and options have {0} characters, at most {TEXT_CHARS_MAX} are allowed")]
    TooLong(usize),
}

impl Clarification {
    /// A clarification, if it is one. Texts become one line each.
    pub fn new(question: &str, options: Vec<ChoiceOption>, asked_at: Timestamp) -> Result<Self, ClarificationError> {
        if !(OPTIONS_MIN..=OPTIONS_MAX).contains(&options.len()) {
            return Err(ClarificationError::Options(options.len()));
        }
        let question = line("question", question, QUESTION_CHARS_MAX)?;
        let options = options.into_iter().enumerate().map(|(at, option)| checked(at, option));
        let options: Vec<ChoiceOption> = options.collect::<Result<_, _>>()?;
        let mut names = HashSet::new();
        if let Some(twin) = options.iter().find(|option| !names.insert(same(&option.label))) {
            return Err(ClarificationError::Twins(twin.label.clone()));
        }
        let of_options = options
            .iter()
            .flat_map(|option| option.attributes.iter().flat_map(|(name, value)| [name, value]).chain([&option.label]));
        let chars: usize = of_options.chain([&question]).map(|text| text.chars().count()).sum();
        match chars <= TEXT_CHARS_MAX {
            true => Ok(Self { question, options, asked_at }),
            false => Err(ClarificationError::TooLong(chars)),
        }
    }
}

fn checked(at: usize, option: ChoiceOption) -> Result<ChoiceOption, ClarificationError> {
    let count = option.attributes.len();
    if count > ATTRIBUTES_MAX {
        return Err(ClarificationError::Attributes { at, count });
    }
    let label = line(&format!("options[{at}].label"), &option.label, LABEL_CHARS_MAX)?;
    let attribute = |(name, value): (String, String)| {
        let field = format!("options[{at}].attributes");
        Ok((line(&field, &name, LABEL_CHARS_MAX)?, line(&field, &value, LABEL_CHARS_MAX)?))
    };
    let attributes = option.attributes.into_iter().map(attribute).collect::<Result<_, _>>()?;
    Ok(ChoiceOption { label, attributes })
}

/// A text with single blanks between its words.
fn line(field: &str, text: &str, chars_max: usize) -> Result<String, ClarificationError> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match check_text(&text, chars_max) {
        Ok(()) => Ok(text),
        Err(reason) => Err(ClarificationError::Text { field: field.to_owned(), reason }),
    }
}

/// What two texts have in common that are the same but for capitals and blanks.
fn same(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// What an answer chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The options, by their places, ascending; empty when none of them is wanted.
    pub options: Vec<usize>,
    /// What told.
    pub by: By,
}

/// What told which option was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Its name, or part of it.
    Name,
    /// Its place as a word: "the second one".
    Ordinal,
    /// Its place as a number or letter: "2", "b)".
    Number,
    /// What is known of it: "the blue one".
    Attribute,
    /// How it compares with the others: "the cheaper one".
    Comparison,
    /// Nearly its name.
    CloseMatch,
    /// "Both", "all of them".
    All,
    /// "Neither".
    Neither,
}

impl By {
    /// The word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Ordinal => "ordinal",
            Self::Number => "number",
            Self::Attribute => "attribute",
            Self::Comparison => "comparison",
            Self::CloseMatch => "close match",
            Self::All => "all",
            Self::Neither => "neither",
        }
    }

    /// How sure that is, between 0 and 1.
    pub fn confidence(self) -> f64 {
        match self {
            Self::Name | Self::Ordinal | Self::Number | Self::All | Self::Neither => 0.95,
            Self::Attribute | Self::Comparison => 0.9,
            Self::CloseMatch => 0.75,
        }
    }
}
