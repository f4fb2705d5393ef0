//! What a scope's summaries have to say to a question, as asides, with what is decided about them beforehand.

use std::sync::Arc;

use super::episodes::{EpisodeShelf, HeldEpisode, Shrunk, Sought, find, told_of_session};
use super::layer::{Aside, Layer};
use super::plan::Plan;
use super::signals::QuestionVectors;
use super::{Ask, Fate, TurnRange};
use crate::id::SessionId;
use crate::kernel::quantise;
use crate::topic::Thresholds;

/// Summaries that are looked at for a question, best first.
const CONSIDERED: usize = 24;
/// What the best summary is worth to whoever asks for an overview: more than the best message.
const OVERVIEW_WORTH: f32 = 1.5;
/// Each part of what is told of the running conversation is worth this much of the part before it.
const NEXT_PART: f32 = 0.95;

/// An aside, and what is known to become of it.
pub(crate) type Decided = (Aside, Option<Fate>);

/// How summaries are looked for.
pub(crate) struct Looking<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) plan: &'a Plan,
    pub(crate) vectors: &'a QuestionVectors,
    pub(crate) thresholds: Thresholds,
    pub(crate) episodes_max: usize,
    /// Whether anything that was said may be no longer so.
    pub(crate) some_outdated: bool,
}

/// The summaries for a question: what is told of the running conversation, and those that are about the question.
pub(crate) struct Summaries {
    told: Vec<(Arc<HeldEpisode>, usize)>,
    about: Vec<(Aside, Option<Fate>)>,
}

impl Summaries {
    pub(crate) fn look(shelf: &EpisodeShelf, looking: &Looking<'_>) -> Self {
        let Looking { ask, .. } = looking;
        let told = match ask.session {
            Some(session) if looking.episodes_max > 0 => told_of_session(shelf, session, |held| is_out(held, ask)),
            _ => Vec::new(),
        };
        let about = if looking.episodes_max > 0 { about(shelf, looking, &told) } else { Vec::new() };
        Self { told, about }
    }

    /// What is told of a conversation, beside the turns that are shown.
    pub(crate) fn of_session(shelf: &EpisodeShelf, session: SessionId, shown: Option<TurnRange>) -> Self {
        let told = told_of_session(shelf, session, |held| held.is_shown(shown.as_slice()));
        Self { told, about: Vec::new() }
    }

    /// All of them as asides, oldest first.
    pub(crate) fn in_order(mut self, shrunk: &Shrunk) -> Vec<Aside> {
        self.told.sort_by_key(|(held, _)| (held.from, std::cmp::Reverse(held.to), held.first));
        self.into_asides(shrunk).into_iter().map(|(aside, _)| aside).collect()
    }

    /// All of them as asides, by what they are worth.
    pub(crate) fn into_asides(self, shrunk: &Shrunk) -> Vec<Decided> {
        let part = |(at, (held, tokens_max)): (usize, (Arc<HeldEpisode>, usize))| {
            let text = shrunk.text(&held, tokens_max);
            let worth = Layer::Summary.worth() * NEXT_PART.powi(at as i32);
            (aside(&held, Layer::Summary, text, worth), None)
        };
        self.told.into_iter().enumerate().map(part).chain(self.about).collect()
    }
}

/// Whether a summary says what the model is shown anyway, or what is being taken back.
fn is_out(held: &HeldEpisode, ask: &Ask) -> bool {
    held.is_shown(&ask.shown_ranges) || held.tells_of(&ask.taken_back)
}

fn aside(held: &HeldEpisode, layer: Layer, text: Arc<str>, worth: f32) -> Aside {
    Aside { layer, source: held.source(), text, worth, score: 0.0, signals: Vec::new() }
}

/// The summaries that are about the question, best first, with why they are not shown.
fn about(shelf: &EpisodeShelf, looking: &Looking<'_>, told: &[(Arc<HeldEpisode>, usize)]) -> Vec<Decided> {
    let Looking { ask, plan, .. } = looking;
    let question = &plan.question;
    let sought = Sought {
        text: &plan.plain_text,
        tongue: question.tongue,
        vector: looking.vectors.plain.as_deref().and_then(quantise),
        thresholds: looking.thresholds,
        within: plan.within,
        range: question.range,
    };
    let best = if question.kind.list { OVERVIEW_WORTH } else { Layer::Episodes.worth() };
    let mut taken: Vec<Arc<HeldEpisode>> = Vec::new();
    let mut decided = Vec::new();
    for found in find(shelf, &sought, CONSIDERED.max(ask.ranked_max)) {
        let held = &found.episode;
        let fate = match () {
            () if !found.related => Some(Fate::Unrelated),
            () if is_out(held, ask) => Some(Fate::Shown),
            () if told.iter().any(|(told, _)| told.tells_the_same(held)) => Some(Fate::Duplicate),
            () if taken.iter().any(|other| other.overlaps(held)) => Some(Fate::Duplicate),
            () if taken.len() >= looking.episodes_max => Some(Fate::Surplus),
            () => None,
        };
        let worth = best / (1 + taken.len()) as f32;
        let aside = aside(held, Layer::Episodes, Arc::clone(&held.summary), worth);
        decided.push((Aside { score: found.score, signals: found.signals, ..aside }, fate));
        if fate.is_none() {
            taken.push(Arc::clone(&found.episode));
        }
    }
    decided
}
