//! Layers: what a context is made of, how much of each, and under which heading it stands.
//!
//! Messages are found by recall itself, and so are summaries. Whatever else is to be laid before the model is handed in
//! as [`Aside`]s: a line each, in a layer.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;

use super::Fate;
use crate::episode::Level;
use crate::id::{EpisodeId, SessionId, TopicId};
use crate::knowledge::Citation;

/// A kind of thing that is laid before the model, in the order in which they are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// What is always told about the user.
    Profile,
    /// What the user was asked, and what they chose.
    Clarification,
    /// What was said in the running conversation before what is shown of it.
    Summary,
    /// What is known that may matter to the question.
    Facts,
    /// What conversations were summarised to, as far as it is about the question.
    Episodes,
    /// What was said, word for word.
    Messages,
    /// Passages of documents.
    Passages,
}

/// How many tokens a layer takes. Both are the same for every budget, so that a larger one never loses anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerBounds {
    /// So much of it comes before everything that is only worth more.
    pub floor: usize,
    /// It never takes more.
    pub ceiling: usize,
}

/// Part of the text, under one heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Section {
    Profile,
    OpenQuestion,
    Facts,
    Past,
    Documents,
    Summaries,
}

impl Section {
    /// All of them, in the order in which they are shown.
    pub(crate) const ALL: [Self; 6] =
        [Self::Profile, Self::OpenQuestion, Self::Facts, Self::Past, Self::Documents, Self::Summaries];

    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Profile => "## User profile",
            Self::OpenQuestion => "## Open question",
            Self::Facts => "## Known facts",
            Self::Past => "## Relevant past",
            Self::Documents => "## Documents",
            Self::Summaries => "## Summaries",
        }
    }
}

impl Layer {
    /// All of them, in their order.
    pub const ALL: [Self; 7] = [
        Self::Profile,
        Self::Clarification,
        Self::Summary,
        Self::Facts,
        Self::Episodes,
        Self::Messages,
        Self::Passages,
    ];

    /// The word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Clarification => "clarification",
            Self::Summary => "summary",
            Self::Facts => "facts",
            Self::Episodes => "episodes",
            Self::Messages => "messages",
            Self::Passages => "passages",
        }
    }

    /// How many tokens it takes. What is always told has a floor; everything else is taken by its worth, and messages may
    /// fill what is left.
    pub fn bounds(self) -> LayerBounds {
        let (floor, ceiling) = match self {
            Self::Profile => (160, 240),
            Self::Clarification => (160, 160),
            Self::Summary => (0, 320),
            Self::Facts => (0, 160),
            Self::Episodes => (0, 400),
            Self::Messages => (0, usize::MAX),
            Self::Passages => (0, 480),
        };
        LayerBounds { floor, ceiling }
    }

    /// What a token of it is worth beside messages, of which the best is worth 1, the second 1/2, the third 1/3.
    pub fn worth(self) -> f32 {
        match self {
            Self::Profile | Self::Clarification => 1.0,
            Self::Passages => 0.9,
            Self::Facts => 0.3,
            Self::Summary => 0.19,
            Self::Episodes => 0.15,
            Self::Messages => 0.0,
        }
    }

    pub(crate) fn section(self) -> Section {
        match self {
            Self::Profile => Section::Profile,
            Self::Clarification => Section::OpenQuestion,
            Self::Facts => Section::Facts,
            Self::Messages => Section::Past,
            Self::Passages => Section::Documents,
            Self::Summary | Self::Episodes => Section::Summaries,
        }
    }
}

/// Something beside messages that may be laid before the model: one line, whatever is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Aside {
    /// Where it belongs. In one layer the first comes first.
    pub layer: Layer,
    /// Where it is from.
    pub source: AsideSource,
    /// What it says.
    pub text: Arc<str>,
    /// What a token of it is worth; see [`Layer::worth`].
    pub worth: f32,
    /// How well it fits the question; only comparable within a layer.
    pub score: f32,
    /// What each signal contributed to that.
    pub signals: Vec<(&'static str, f32)>,
}

/// Where an aside is from.
#[derive(Debug, Clone, PartialEq)]
pub enum AsideSource {
    /// A summary of turns.
    Episode {
        /// Its name.
        id: EpisodeId,
        /// The conversation.
        session: SessionId,
        /// How much of it this tells.
        level: Level,
        /// The first turn.
        first: u64,
        /// The last.
        last: u64,
        /// When the first was opened.
        from: Timestamp,
        /// When the last was.
        to: Timestamp,
    },
    /// A passage of a document.
    Passage(Citation),
    /// Something else, by its id.
    Other(String),
}

impl Aside {
    /// A line in a layer, worth what the layer is.
    pub fn new(layer: Layer, source: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        Self {
            layer,
            source: AsideSource::Other(source.into()),
            text: text.into(),
            worth: layer.worth(),
            score: 0.0,
            signals: Vec::new(),
        }
    }

    /// What is always told about the user: `home city: Porto (since 2026-05-07)`.
    pub fn profile(source: impl Into<String>, key: &str, value: &str, since: Option<Date>) -> Self {
        let since = since.map_or_else(String::new, |day| format!(" (since {day})"));
        Self::new(Layer::Profile, source, format!("{key}: {value}{since}"))
    }

    /// The summary of a topic that the question returns to. It comes before everything that was found.
    pub fn of_topic(id: TopicId, title: &str, summary: &str) -> Self {
        Self { worth: 1.0, ..Self::new(Layer::Summary, id.to_string(), format!("{title}: {summary}")) }
    }

    /// What the user was asked, and what they chose.
    pub fn clarification(source: impl Into<String>, told: &str) -> Self {
        Self::new(Layer::Clarification, source, told)
    }
}

/// An aside, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Considered {
    /// What it was. If it was kept, the text is what is shown of it.
    pub aside: Aside,
    /// What became of it.
    pub fate: Fate,
    /// Its tokens, as rendered; 0 if it was not looked at so closely.
    pub tokens: usize,
}

impl Considered {
    /// Whether it is in the context.
    pub fn is_kept(&self) -> bool {
        self.fate == Fate::Kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::render::HEADING_TOKENS_MAX;

    #[test]
    fn a_fact_is_a_line_with_its_date() {
        let day = jiff::civil::date(2026, 5, 7);
        assert_eq!(&*Aside::profile("f", "home city", "Porto", Some(day)).text, "home city: Porto (since 2026-05-07)");
        assert_eq!(&*Aside::profile("f", "name", "Ann", None).text, "name: Ann");
    }

    #[test]
    fn every_layer_has_its_place() {
        for layer in Layer::ALL {
            let LayerBounds { floor, ceiling } = layer.bounds();
            assert!(floor <= ceiling && Section::ALL.contains(&layer.section()), "{layer:?}");
        }
        for section in Section::ALL {
            assert!(crate::tokens::count(section.heading()) < HEADING_TOKENS_MAX, "{section:?}");
        }
    }
}
