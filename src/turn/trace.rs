//! Why the model was reminded of what it was: kept with the turn, for whoever asks later.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::clarify::noted;
use super::notes;
use super::remind::Reminded;
use crate::knowledge::Citation;
use crate::memory::Memory;
use crate::recall::{AsideSource, Considered, Ranked, Recalled, Reminder};
use crate::store::TRACE_BYTES_MAX;

/// Most of what stands beside messages that is told.
const ASIDES_MAX: usize = 64;
/// How much of a question the trace repeats.
const QUESTION_CHARS_MAX: usize = 2_000;
/// How much of the query an answer's metadata repeats.
const NOTED_QUERY_CHARS_MAX: usize = 500;

impl Memory {
    /// The trace of a recall as JSON; none for one that was late or failed.
    pub(super) fn trace(&self, question: &str, reminded: &Reminded) -> Option<String> {
        let Reminded { recalled, took, clarification, .. } = reminded;
        let chosen = clarification.as_ref().map(noted);
        // A recall that came to its end knows which kind of chat it assumed.
        recalled.profile?;
        let version = self.parts.weights.version();
        let with = |candidates: usize| {
            let mut trace = trace(question, recalled, version, took.as_secs_f64() * 1e3, candidates);
            trace["clarification"] = chosen.clone().into();
            trace.to_string()
        };
        let most = self.settings.recall.trace_candidates.min(recalled.ranked.len());
        let halves = std::iter::successors(Some(most), |most| (*most > 0).then_some(most / 2));
        halves.map(with).find(|trace| trace.len() <= TRACE_BYTES_MAX)
    }
}

/// How the memory was searched for a question. An answer's metadata keeps it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchResults {
    /// The question that was searched for: a follow-up as it was completed.
    pub query: String,
    /// Items that the model was shown.
    pub results_count: usize,
    /// Whether there were candidates, which are always scored again by all signals.
    pub reranked: bool,
    /// How long it took.
    pub search_time_ms: f64,
}

impl SearchResults {
    /// `None` where recall was late, failed or switched off.
    pub(super) fn of(question: &str, reminded: &Reminded) -> Option<Self> {
        let Reminded { recalled, took, .. } = reminded;
        recalled.profile?;
        let query = recalled.completed.as_deref().unwrap_or(question);
        Some(Self {
            query: query.chars().take(NOTED_QUERY_CHARS_MAX).collect(),
            results_count: recalled.items(),
            reranked: recalled.items() > 0 || !recalled.ranked.is_empty(),
            search_time_ms: rounded(took.as_secs_f64() * 1e3),
        })
    }
}

/// What a turn and its answer keep of a search in their metadata.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SearchNotes {
    /// For the turn: `result_count`.
    pub(super) turn: Map<String, Value>,
    /// For the answer: `citations` and `search_results`.
    pub(super) answer: Map<String, Value>,
}

impl SearchNotes {
    pub(super) fn of(results: Option<&SearchResults>, recalled: &Recalled) -> Self {
        let Some(results) = results else { return Self::default() };
        let citations: Vec<Value> = recalled.citations().iter().map(cited).collect();
        Self {
            turn: notes([("result_count", results.results_count.into())]),
            answer: notes([("citations", citations.into()), ("search_results", json!(results))]),
        }
    }
}

fn trace(question: &str, recalled: &Recalled, weights_version: u32, took_ms: f64, candidates: usize) -> Value {
    let question: String = question.chars().take(QUESTION_CHARS_MAX).collect();
    json!({
        "question": question,
        "completed": recalled.completed,
        "profile": recalled.profile.map(|profile| profile.as_str()),
        "with_vectors": recalled.with_vectors,
        "weights_version": weights_version,
        "searched": recalled.searched,
        "took_ms": rounded(took_ms),
        "tokens": recalled.tokens,
        "candidates": recalled.ranked.iter().take(candidates).map(candidate).collect::<Vec<_>>(),
        "reminders": recalled.reminders.iter().map(reminder).collect::<Vec<_>>(),
        "citations": recalled.citations().iter().map(cited).collect::<Vec<_>>(),
        "asides": recalled.asides.iter().take(ASIDES_MAX).map(aside).collect::<Vec<_>>(),
    })
}

fn candidate(ranked: &Ranked) -> Value {
    let Ranked { message, score, signals, fate } = ranked;
    let signals = parts(signals);
    json!({"message": message.to_string(), "score": rounded((*score).into()), "fate": fate.as_str(), "signals": signals})
}

fn reminder(reminder: &Reminder) -> Value {
    let Reminder { message, reason, tokens, .. } = reminder;
    json!({"message": message.to_string(), "reason": reason.as_str(), "tokens": tokens})
}

/// What stands beside messages: where it is from and how it was judged. Its words are where it is from.
fn aside(considered: &Considered) -> Value {
    let Considered { aside, fate, tokens } = considered;
    let mut told = json!({
        "layer": aside.layer.as_str(), "score": rounded(aside.score.into()), "fate": fate.as_str(), "tokens": tokens,
        "signals": parts(&aside.signals),
    });
    match &aside.source {
        AsideSource::Episode { id, session, level, first, last, .. } => {
            told["id"] = id.to_string().into();
            told["session_id"] = session.to_string().into();
            told["level"] = level.as_str().into();
            told["turn_first"] = (*first).into();
            told["turn_last"] = (*last).into();
        }
        AsideSource::Passage(citation) => {
            told["id"] = citation.passage.to_string().into();
            told["source"] = citation.source.as_str().into();
            told["document_title"] = citation.title.as_str().into();
            told["similarity"] = rounded(citation.similarity.into()).into();
        }
        AsideSource::Other(id) => told["id"] = id.as_str().into(),
    }
    told
}

/// What was drawn on, as `/chat` tells it.
fn cited(citation: &Citation) -> Value {
    let Citation { source, passage, similarity, title } = citation;
    let similarity = rounded((*similarity).into());
    json!({"source": source, "chunk_id": passage.to_string(), "similarity": similarity, "document_title": title})
}

fn parts(signals: &[(&'static str, f32)]) -> Map<String, Value> {
    signals.iter().map(|(name, part)| ((*name).to_owned(), rounded((*part).into()).into())).collect()
}

/// Three digits say enough; more of them would say it in kilobytes.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::episode::Level;
    use crate::id::{CountedIds, EpisodeId, Ids};
    use crate::recall::{Aside, Fate, Layer, Profile};
    use jiff::Timestamp;

    #[test]
    fn a_trace_says_what_was_weighed() {
        let message = CountedIds::default().turn(Timestamp::UNIX_EPOCH).message(0);
        let signals = vec![("bm25", 1.234_56), ("recency", -0.000_4)];
        let ranked = vec![Ranked { message, score: 1.233_9, signals, fate: Fate::OverBudget }];
        let recalled = Recalled { ranked, profile: Some(Profile::Mixed), searched: 7, ..Recalled::default() };
        let trace = trace(&"é".repeat(9_000), &recalled, 3, 0.123_45, 9);
        assert_eq!(trace["question"].as_str().map(|text| text.chars().count()), Some(QUESTION_CHARS_MAX));
        assert_eq!((&trace["took_ms"], &trace["weights_version"]), (&json!(0.123), &json!(3)));
        let candidate = &trace["candidates"][0];
        assert_eq!((&candidate["fate"], &candidate["score"]), (&json!("over budget"), &json!(1.234)));
        assert_eq!(candidate["signals"], json!({"bm25": 1.235, "recency": -0.0}));
    }

    #[test]
    fn an_answer_notes_what_was_searched_and_cited() {
        let reminded = |profile| Reminded {
            recalled: Recalled { profile, completed: Some("é".repeat(9_000)), ..Recalled::default() },
            took: Duration::from_micros(1_234),
            ..Reminded::nothing()
        };
        let notes = |reminded: &Reminded| {
            SearchNotes::of(SearchResults::of("And then?", reminded).as_ref(), &reminded.recalled)
        };
        let searched = notes(&reminded(Some(Profile::Mixed)));
        assert_eq!(searched.turn["result_count"], 0);
        let expected =
            json!({"query": "é".repeat(500), "results_count": 0, "reranked": false, "search_time_ms": 1.234});
        assert_eq!((&searched.answer["search_results"], &searched.answer["citations"]), (&expected, &json!([])));
        assert_eq!(notes(&reminded(None)), SearchNotes::default());
    }

    #[test]
    fn what_stands_beside_messages_is_told_too() {
        let session = CountedIds::default().session();
        let id = EpisodeId::beginning(session, "hour", 21, Timestamp::UNIX_EPOCH);
        let (from, to) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        let source = AsideSource::Episode { id, session, level: Level::Hour, first: 21, last: 40, from, to };
        let episode =
            Aside { source, signals: vec![("words", 0.25)], score: 0.25, ..Aside::profile("", "a", "b", None) };
        let told =
            aside(&Considered { aside: Aside { layer: Layer::Episodes, ..episode }, fate: Fate::Surplus, tokens: 0 });
        assert_eq!((&told["layer"], &told["fate"]), (&json!("episodes"), &json!("not among the best")));
        assert_eq!((&told["level"], &told["turn_first"], &told["turn_last"]), (&json!("hour"), &json!(21), &json!(40)));
        assert_eq!((&told["id"], &told["signals"]), (&json!(id.to_string()), &json!({"words": 0.25})));
        let fact = Considered { aside: Aside::profile("f-1", "name", "Alex", None), fate: Fate::Kept, tokens: 5 };
        assert_eq!((&aside(&fact)["id"], &aside(&fact)["tokens"]), (&json!("f-1"), &json!(5)));
    }
}
