//! Consolidation: turns that left the window become episodes.
//!
//! Everything is read, made, and handed over as one effect, which the store applies only if what was read is still so.
//! What comes meanwhile is after the last turn that was read and waits for the next run.

use jiff::Timestamp;

use super::jobs::DigestError;
use super::propose::Asking;
use crate::episode::{Cut, Episode, EpisodeSettings, Level, Meaning, Open, Window, cut, hour_of};
use crate::id::{EpisodeId, SessionId};
use crate::job::ATTEMPTS_MAX;
use crate::memory::Memory;
use crate::model::builtin::summary;
use crate::model::summarise::{Talk, Telling, Told};
use crate::scope::Scope;
use crate::session::{SessionKind, Turn};
use crate::store::{Claim, Consolidation, Effect, Limits, Progress, ReadRange};

/// Stretches that are made in one run, so that a transaction stays short; what is left is done by the next. A memory model's
/// work is kept one by one: what it did must not be lost with the failure of what comes after.
const STRETCHES_MAX: usize = 8;
const STRETCHES_MAX_METERED: usize = 1;

impl Memory {
    /// Makes episodes of what has left a session's window, and makes those anew whose turns changed.
    pub(super) async fn consolidate(&self, claim: &Claim, patient: bool) -> Result<Effect, DigestError> {
        let digest = Digest {
            memory: self,
            claim,
            scope: &claim.scope,
            session: claim.job.session,
            settings: &self.settings.episodes,
        };
        let Some(progress) = digest.progress().await? else { return Ok(Effect::Nothing) };
        let rests_until = self.rests_until(claim, progress.last_said, progress.leaving_bytes).filter(|_| patient);
        if let Some(until) = rests_until {
            return Ok(Effect::Later(until));
        }
        let mut made = digest.stretches(&progress).await?;
        match digest.tell(&progress, &mut made).await {
            // A new stretch was paid for: it is not asked for again because its hour or the session is not told yet.
            Err(DigestError::Model(_)) if digest.is_metered() && made.is_new(&progress) => made.done.more = true,
            told => told?,
        }
        digest.embed(&mut made.done.keep, claim.job.attempts >= ATTEMPTS_MAX).await?;
        Ok(made.effect())
    }
}

/// A look at one session.
pub(super) struct Digest<'a> {
    pub(super) memory: &'a Memory,
    pub(super) claim: &'a Claim,
    pub(super) scope: &'a Scope,
    pub(super) session: SessionId,
    pub(super) settings: &'a EpisodeSettings,
}

/// What a run has come to so far.
pub(super) struct Made {
    pub(super) done: Consolidation,
    /// Hours of which a stretch is new or has changed.
    pub(super) hours: Vec<Timestamp>,
    /// The first turn of the hours that are told anew or told no more.
    pub(super) retold: Option<u64>,
}

impl Made {
    fn effect(self) -> Effect {
        let Consolidation { from, to, keep, drop, settled, .. } = &self.done;
        if from == to && keep.is_empty() && drop.is_empty() && settled.is_empty() {
            return Effect::Nothing;
        }
        Effect::Consolidate(Box::new(self.done))
    }

    /// Whether all that is told anew are stretches that grew.
    fn is_new(&self, progress: &Progress) -> bool {
        self.done.from < self.done.to && progress.stale.is_empty()
    }

    fn keep(&mut self, stretch: Episode, before: Option<&Episode>) {
        self.hours.extend(before.into_iter().chain([&stretch]).map(|episode| hour_of(episode.from)));
        self.done.keep.push(stretch);
    }

    /// The last stretch as it will be when this run is over.
    pub(super) fn last<'a>(&'a self, progress: &'a Progress) -> Option<&'a Episode> {
        let stretches = self.done.keep.iter().filter(|episode| episode.level == Level::Stretch);
        progress.last.iter().chain(stretches).max_by_key(|stretch| stretch.first)
    }
}

impl Digest<'_> {
    fn stretches_max(&self) -> usize {
        if self.is_metered() { STRETCHES_MAX_METERED } else { STRETCHES_MAX }
    }

    /// Whether it costs something to have things told.
    pub(super) fn is_metered(&self) -> bool {
        self.memory.parts.summariser.is_metered()
    }

    async fn progress(&self) -> Result<Option<Progress>, DigestError> {
        let enough = |window: &Window| window.at + (STRETCHES_MAX + 1) * window.stretch;
        let turns = enough(&self.settings.durable).max(enough(&self.settings.ephemeral));
        let limits = Limits { turns, stale: self.stretches_max() };
        Ok(self.memory.parts.store.episodes().progress(self.scope, self.session, limits).await?)
    }

    /// The stretches that are due: new ones, longer ones, and those whose turns changed.
    async fn stretches(&self, progress: &Progress) -> Result<Made, DigestError> {
        let mut cuts = self.cuts(progress);
        let more = cuts.len() > self.stretches_max() || self.leaves_stale(progress);
        cuts.truncate(self.stretches_max());
        let (from, to) = (progress.consolidated, cuts.last().map_or(progress.consolidated, |cut| cut.last));
        let (read, keep, drop, settled) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut made =
            Made { done: Consolidation { from, to, read, keep, drop, settled, more }, hours: Vec::new(), retold: None };
        let longer = |stretch: &&Episode| cuts.iter().all(|cut| cut.first != stretch.first);
        for stretch in progress.stale.iter().filter(longer) {
            self.make_anew(stretch, &mut made).await?;
        }
        for cut in &cuts {
            let before = progress.last.as_ref().filter(|last| last.first == cut.first);
            self.make(*cut, before, &mut made).await?;
        }
        Ok(made)
    }

    /// Whether stretches may be left to the next run of which a turn changed.
    pub(super) fn leaves_stale(&self, progress: &Progress) -> bool {
        progress.stale.len() >= self.stretches_max()
    }

    fn cuts(&self, progress: &Progress) -> Vec<Cut> {
        let window = match progress.kind {
            SessionKind::Durable => &self.settings.durable,
            SessionKind::Ephemeral => &self.settings.ephemeral,
        };
        let open = progress.last.as_ref().filter(|last| progress.last_is_whole && last.weight < window.stretch);
        let open = open.map(|last| Open { first: last.first, weight: last.weight });
        cut(progress.begins, &progress.leaving, open, window)
    }

    /// Tells a stretch again of which a turn changed. Where turns have expired, what was told of them is all there is,
    /// so it stays. Where nothing is told because a turn was erased, the others are told without it.
    async fn make_anew(&self, stretch: &Episode, made: &mut Made) -> Result<(), DigestError> {
        let Episode { first, last, weight, .. } = *stretch;
        let read = self.memory.parts.store.episodes().stretch(self.scope, self.session, first, last).await?;
        if !read.whole && !stretch.summary.is_empty() {
            made.done.settled.push(stretch.id);
            made.hours.push(hour_of(stretch.from));
            return Ok(());
        }
        self.make(Cut { first, last, weight }, Some(stretch), made).await
    }

    async fn make(&self, cut: Cut, before: Option<&Episode>, made: &mut Made) -> Result<(), DigestError> {
        let Cut { first, last, weight } = cut;
        let read = self.memory.parts.store.episodes().stretch(self.scope, self.session, first, last).await?;
        made.done.read.push(ReadRange { first, last, stamp: read.stamp });
        let said: Vec<Told> = read.turns.iter().flat_map(told).collect();
        let times = read.turns.iter().map(|turn| turn.created_at);
        let (from, to) = match (times.clone().min(), times.max(), before) {
            (Some(from), Some(to), _) => (from, to),
            (_, _, Some(before)) => (before.from, before.to),
            _ => (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH),
        };
        let telling = self.summarise(None, said, Level::Stretch).await?;
        let span = Span { first, last, weight, from, to };
        made.keep(self.episode(Level::Stretch, span, telling, before), before);
        Ok(())
    }

    /// Says briefly what was said; where nothing was, nothing.
    pub(super) async fn summarise(
        &self,
        before: Option<String>,
        said: Vec<Told>,
        level: Level,
    ) -> Result<Telling, DigestError> {
        if said.is_empty() {
            let (text, made_by) = (before.unwrap_or_default(), summary::NAME.to_owned());
            return Ok(Telling { text, title: None, made_by });
        }
        let talk = Talk { before, said, tokens_max: self.settings.tokens_max(level), is_topic: false };
        self.memory.say_briefly(Asking { claim: self.claim, topic: None }, talk).await
    }

    /// An episode, in the version after the one before.
    pub(super) fn episode(&self, level: Level, span: Span, telling: Telling, before: Option<&Episode>) -> Episode {
        let Span { first, last, weight, from, to } = span;
        Episode {
            id: EpisodeId::beginning(self.session, level.as_str(), first, from),
            session: self.session,
            level,
            first,
            last,
            weight,
            from,
            to,
            summary: telling.text,
            vector: None,
            made_by: telling.made_by,
            version: before.map_or(1, |before| before.version + 1),
        }
    }

    /// Gives episodes their vectors. An embedder that fails is asked again with the next try; the last one does without.
    async fn embed(&self, episodes: &mut [Episode], last_try: bool) -> Result<(), DigestError> {
        let mut without: Vec<&mut Episode> =
            episodes.iter_mut().filter(|episode| !episode.summary.is_empty() && episode.vector.is_none()).collect();
        if without.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = without.iter().map(|episode| episode.summary.clone()).collect();
        let embedder = &self.memory.parts.embedder;
        let vectors = match embedder.embed(&texts).await {
            Ok(vectors) => vectors,
            Err(error) => {
                self.memory.parts.meters.embedder_failures.one();
                return if last_try { Ok(()) } else { Err(error.into()) };
            }
        };
        for (episode, values) in without.iter_mut().zip(vectors) {
            episode.vector = Some(Meaning { embedder: embedder.id().as_str().to_owned(), values });
        }
        Ok(())
    }
}

/// What an episode tells of.
pub(super) struct Span {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) weight: usize,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// What was said in a turn, by whom.
pub(super) fn told(turn: &Turn) -> Vec<Told> {
    let spoken = turn.messages.iter().filter(|message| message.is_spoken() && !message.text.trim().is_empty());
    let told = spoken.map(|message| Told {
        speaker: message.speaker().into_owned(),
        text: message.text.clone(),
        at: turn.created_at,
    });
    told.collect()
}
