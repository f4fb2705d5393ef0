//! Questions as numbers: every signal of every message, kept flat, and rankings by weights that are tried on them.

use anyhow::Context;

use super::choice::Signal;
use super::loss::Lesson;
use crate::cli::bench::recall::chats::{Chat, Question};
use crate::cli::bench::recall::progress;
use crate::cli::bench::recall::rank::places;
use crate::cli::bench::recall::score::{RANKED_MAX, Tally, score};
use crate::cli::bench::recall::stage::{Stage, Told};
use crate::memory::Memory;
use crate::message::Role;
use crate::recall::{Ask, Profile, SignalTable, WeightTable};

/// Questions of many chats.
pub(super) struct School {
    /// Tokens of each message, by chat.
    tokens: Vec<Vec<usize>>,
    pupils: Vec<Pupil>,
}

/// A question with its place, its evidence, and its numbers.
struct Pupil {
    chat: usize,
    category: Option<String>,
    /// Places in the chat.
    evidence: Vec<usize>,
    /// The place in the chat of each message of the lesson.
    places: Vec<u32>,
    lesson: Lesson,
}

impl School {
    /// Tells every chat to a memory and asks for the signals of every question.
    pub(super) async fn gather(
        stage: &Stage,
        chats: &[Chat],
        profile: Profile,
        signals: &[Signal],
    ) -> anyhow::Result<Self> {
        let asked: usize = chats.iter().map(|chat| chat.questions.len()).sum();
        let bar = progress("gathering", "questions", asked)?;
        let memory = stage.memory(WeightTable::shipped());
        let mut pupils = Vec::with_capacity(asked);
        for (n, chat) in chats.iter().enumerate() {
            let told = stage.tell(&memory, &format!("chat-{n}"), &chat.messages).await?;
            let hall = Hall { memory: &memory, n, chat, told: &told, profile, signals };
            for question in &chat.questions {
                pupils.push(hall.pupil(question).await?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let tokens = chats.iter().map(|chat| chat.messages.iter().map(|said| said.tokens()).collect()).collect();
        Ok(Self { tokens, pupils })
    }

    /// The questions of some chats.
    pub(super) fn lessons_of(&self, chats: impl Fn(usize) -> bool) -> Vec<&Lesson> {
        self.pupils.iter().filter(|pupil| chats(pupil.chat)).map(|pupil| &pupil.lesson).collect()
    }

    /// Ranks by weights, and scores the rankings of some chats.
    pub(super) fn grade(&self, tally: &mut Tally, weights: &[f64], chats: impl Fn(usize) -> bool) {
        for pupil in self.pupils.iter().filter(|pupil| chats(pupil.chat)) {
            let rows = pupil.lesson.ranked(weights, RANKED_MAX);
            let ranked: Vec<usize> = rows.into_iter().map(|row| pupil.places[row] as usize).collect();
            let tokens = |place: usize| self.tokens[pupil.chat][place];
            tally.add(pupil.category.as_deref(), score(&ranked, &pupil.evidence, tokens));
        }
    }

    /// The same, in a tally of its own.
    pub(super) fn graded(&self, weights: &[f64], chats: impl Fn(usize) -> bool) -> Tally {
        let mut tally = Tally::default();
        self.grade(&mut tally, weights, chats);
        tally
    }
}

/// A chat that questions are asked about.
struct Hall<'a> {
    memory: &'a Memory,
    n: usize,
    chat: &'a Chat,
    told: &'a Told,
    profile: Profile,
    signals: &'a [Signal],
}

impl Hall<'_> {
    async fn pupil(&self, question: &Question) -> anyhow::Result<Pupil> {
        let ask = Ask {
            question: question.text.clone(),
            asked_at: question.asked_at.or(self.told.last_at),
            profile: Some(self.profile),
            ..Ask::default()
        };
        let table = self.memory.recall_signals(&self.told.scope, &ask).await?;
        let evidence = places(self.chat, &question.evidence);
        let (places, lesson) = self.lesson(&table, &evidence)?;
        Ok(Pupil { chat: self.n, category: question.category.clone(), evidence, places, lesson })
    }

    fn lesson(&self, table: &SignalTable, evidence: &[usize]) -> anyhow::Result<(Vec<u32>, Lesson)> {
        let column = |signal: &Signal| {
            let name = signal.column();
            table.names.iter().position(|known| *known == name).with_context(|| format!("`{name}` was not computed"))
        };
        let columns = self.signals.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        // Where no signal of replies has a weight, replies are not ranked.
        let with_replies = self.signals.iter().any(|signal| matches!(signal, Signal::Reply(_)));
        let ranked = |place: usize| with_replies || self.chat.messages[place].role != Role::Assistant;
        let placed = table.messages.iter().map(|id| self.told.places.get(id).copied());
        let (mut places, mut rows) = (Vec::new(), Vec::new());
        for (place, row) in placed.zip(&table.rows).filter_map(|(place, row)| Some((place?, row))) {
            if ranked(place) {
                places.push(place as u32);
                rows.push(columns.iter().map(|column| row[*column]).collect::<Vec<f32>>());
            }
        }
        let wanted = (0..).zip(&places).filter(|(_, place)| evidence.contains(&(**place as usize)));
        let wanted = wanted.map(|(at, _)| at).collect();
        Ok((places, Lesson::new(&rows, columns.len(), wanted)))
    }
}
