//! The numbers of placement, fitted anew: a conditional logit, which of the topics a message belongs to, or a new one.
//!
//! While it is fitted, every message before has been placed right. What is placed by rule (the first message, and what leans on
//! the one before) teaches nothing. To be scored, messages are placed as the server does, with nobody to put them right.

use jiff::Timestamp;

use super::follow::{Heard, follow, remark};
use super::score::{Score, score};
use super::streams::Stream;
use crate::cli::bench::recall::learn::descent::{Patience, descend};
use crate::cli::bench::recall::learn::loss::{Lesson, Loss};
use crate::cli::bench::recall::sheet::{Cell, Sheet};
use crate::id::{CountedIds, Ids, TopicId};
use crate::topic::{Known, Signs, Sketch, Speaker, Thresholds, signs};

/// How much a squared number costs: enough that signs which never differ stay at nothing.
const L2: f64 = 1e-4;

/// What the fit came to.
pub(super) struct Refit {
    /// Fitted on all streams.
    pub(super) all: Signs,
    /// How well that places the same streams, and how well each is placed by what streams teach that share no source with it.
    pub(super) scores: [(&'static str, Score); 2],
}

/// Fits the numbers to streams, and scores them.
pub(super) fn refit(streams: &[Stream], heard: &[Vec<Heard>], thresholds: &Thresholds) -> Refit {
    let lessons: Vec<Vec<Lesson>> =
        streams.iter().zip(heard).map(|(stream, heard)| lessons(stream, heard, thresholds)).collect();
    let learned = |from: &dyn Fn(&Stream) -> bool| {
        let chosen = streams.iter().zip(&lessons).filter(|(stream, _)| from(stream));
        fit(chosen.flat_map(|(_, lessons)| lessons).collect())
    };
    let placed = |fitted: Signs, heard: &[Heard]| {
        let followed = follow(heard, &thresholds.refitted(fitted));
        followed.iter().map(|one| one.topic).collect::<Vec<usize>>()
    };
    let all = learned(&|_| true);
    let in_sample: Vec<Vec<usize>> = heard.iter().map(|heard| placed(all, heard)).collect();
    let apart: Vec<Vec<usize>> = streams
        .iter()
        .zip(heard)
        .map(|(held_out, heard)| placed(learned(&|stream| is_apart(stream, held_out)), heard))
        .collect();
    Refit {
        all,
        scores: [
            ("recalld, fitted to this file (in-sample)", score(streams, &in_sample)),
            ("the same, each stream by what others teach", score(streams, &apart)),
        ],
    }
}

/// Whether two streams have nothing in common. Streams that do not say what they were made from are alone with themselves.
fn is_apart(one: &Stream, other: &Stream) -> bool {
    !std::ptr::eq(one, other) && one.sources.iter().all(|source| !other.sources.contains(source))
}

fn fit(lessons: Vec<&Lesson>) -> Signs {
    let loss = Loss { lessons, prior: &[0.0; Signs::COUNT], l2: L2 };
    let lowest = descend(vec![0.0; Signs::COUNT], Patience::default(), |weights| loss.at(weights));
    Signs::from_values(std::array::from_fn(|at| lowest.point[at] as f32))
}

/// A choice for each message that is not placed by rule.
fn lessons(stream: &Stream, heard: &[Heard], thresholds: &Thresholds) -> Vec<Lesson> {
    let (ids, mut topics, mut lessons): (_, Vec<(usize, TopicId, Sketch)>, _) =
        (CountedIds::default(), Vec::new(), Vec::new());
    let mut current = None;
    for (entry, heard) in stream.messages.iter().zip(heard) {
        let said = heard.remark();
        let known: Vec<Known<'_>> = topics.iter().map(|(_, id, sketch)| Known { id: *id, sketch }).collect();
        let right = topics.iter().position(|(topic, ..)| *topic == entry.topic);
        if !topics.is_empty() && !said.leans() {
            let rows: Vec<[f32; Signs::COUNT]> =
                signs(&known, current, &said, thresholds).iter().map(Signs::values).collect();
            lessons.push(Lesson::new(&rows, Signs::COUNT, vec![right.unwrap_or(topics.len()) as u32]));
        }
        let at = right.unwrap_or_else(|| {
            topics.push((entry.topic, ids.topic(Timestamp::UNIX_EPOCH), Sketch::default()));
            topics.len() - 1
        });
        let (_, id, sketch) = &mut topics[at];
        current = Some(*id);
        sketch.take_in(&said, Speaker::User);
        if let Some(answer) = &heard.answer {
            sketch.take_in(&remark(answer), Speaker::Assistant);
        }
    }
    lessons
}

/// The numbers, by name.
pub(super) fn sheet(fitted: &Signs) -> Sheet {
    let mut sheet = Sheet::new("What each sign counts, fitted to this file", &["sign", "counts"]);
    for (name, value) in Signs::NAMES.iter().zip(fitted.values()) {
        sheet.rows.push(vec![Cell::text(*name), Cell::Number(f64::from(value), 2)]);
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::super::streams::Entry;
    use super::*;

    /// Two topics in turns, each with words of its own.
    fn stream(n: usize) -> (Stream, Vec<Heard>) {
        let texts = ["Paint for the garden shed", "Trains to Lisbon", "Green paint, shed door", "Lisbon trains, night"];
        let entry = |at: usize| Entry { topic: at % 2, user: format!("{} number {n}", texts[at]), answer: None };
        let messages: Vec<Entry> = (0..4).map(entry).collect();
        let heard = messages.iter().map(|entry| Heard { user: (entry.user.clone(), None), answer: None }).collect();
        (Stream { messages, sources: vec![n.to_string()] }, heard)
    }

    #[test]
    fn what_is_fitted_places_others_right() {
        let (streams, heard): (Vec<Stream>, Vec<Vec<Heard>>) = (0..6).map(stream).unzip();
        let refit = refit(&streams, &heard, &Thresholds::default());
        assert!(refit.all.words > 0.0, "{:?}", refit.all);
        let [(_, in_sample), (_, apart)] = &refit.scores;
        assert!(in_sample.b_cubed > 0.9 && apart.b_cubed > 0.9);
        assert_eq!(sheet(&refit.all).rows.len(), Signs::COUNT);
    }

    #[test]
    fn streams_of_one_source_are_not_apart() {
        let [(one, _), (other, _), (same, _)] = [stream(1), stream(2), stream(1)];
        assert!(is_apart(&one, &other) && !is_apart(&one, &same) && !is_apart(&one, &one));
    }
}
