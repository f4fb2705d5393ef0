//! Hours from stretches, and the session from hours.

use jiff::Timestamp;

use super::consolidate::{Digest, Made, Span};
use super::jobs::DigestError;
use crate::episode::{Episode, Level, Tier, aged, hour_of, tiers};
use crate::id::EpisodeId;
use crate::model::summarise::{Telling, Told, told_by};
use crate::store::{Progress, Wanted};

/// Stretches that an hour is told from, the newest of it. Nobody talks more in an hour; what is imported may look so.
const STRETCHES_IN_HOUR_MAX: usize = 48;
/// Hours that become part of the session's summary in one run.
const HOURS_MAX: usize = 24;

impl Digest<'_> {
    /// Tells hours and the session.
    pub(super) async fn tell(&self, progress: &Progress, made: &mut Made) -> Result<(), DigestError> {
        made.hours.extend(self.late_hour(progress).await?);
        self.hours(made).await?;
        self.session(progress, made).await
    }

    /// The hour of the last stretch, where the stretch was kept and the hour could not be told.
    async fn late_hour(&self, progress: &Progress) -> Result<Option<Timestamp>, DigestError> {
        let Some(last) = progress.last.as_ref().filter(|last| !last.summary.is_empty()) else { return Ok(None) };
        let told = self.tier(Level::Hour, 0, Some(hour_of(last.from)), STRETCHES_IN_HOUR_MAX).await?;
        Ok(told.iter().all(|hour| hour.last < last.last).then(|| hour_of(last.from)))
    }

    /// Tells the hours anew of which a stretch is new or has changed.
    async fn hours(&self, made: &mut Made) -> Result<(), DigestError> {
        let hours = std::mem::take(&mut made.hours);
        let stretches = self.stretches_of(&hours, &made.done.keep).await?;
        for tier in tiers(&hours, &stretches) {
            self.hour(tier, made).await?;
        }
        Ok(())
    }

    /// The stretches of some hours as they will be when this run is over.
    async fn stretches_of(&self, hours: &[Timestamp], changed: &[Episode]) -> Result<Vec<Episode>, DigestError> {
        let mut stretches: Vec<Episode> = changed.to_vec();
        for hour in hours {
            for stretch in self.tier(Level::Stretch, 0, Some(*hour), STRETCHES_IN_HOUR_MAX).await? {
                if stretches.iter().all(|known| known.first != stretch.first) {
                    stretches.push(stretch);
                }
            }
        }
        stretches.retain(|stretch| !stretch.summary.is_empty());
        Ok(stretches)
    }

    async fn hour(&self, tier: Tier<'_>, made: &mut Made) -> Result<(), DigestError> {
        let begin = tier.stretches.len().saturating_sub(STRETCHES_IN_HOUR_MAX);
        let stretches = &tier.stretches[begin..];
        let known = self.tier(Level::Hour, 0, Some(tier.hour), STRETCHES_IN_HOUR_MAX).await?;
        let first = stretches.first().map(|stretch| stretch.first);
        made.retold = known.iter().map(|hour| hour.first).chain(first).chain(made.retold).min();
        let moved: Vec<EpisodeId> = known.iter().filter(|hour| Some(hour.first) != first).map(|hour| hour.id).collect();
        let Some(span) = span(stretches) else {
            made.done.drop.extend(moved);
            return Ok(());
        };
        let before = known.iter().find(|hour| hour.first == span.first);
        let telling = match stretches {
            // What one stretch tells of an hour is all there is to tell.
            [only] => Telling { text: only.summary.clone(), title: None, made_by: only.made_by.clone() },
            several => self.summarise(None, several.iter().flat_map(|one| again(one)).collect(), Level::Hour).await?,
        };
        made.done.drop.extend(moved);
        made.done.keep.push(self.episode(Level::Hour, span, telling, before));
        Ok(())
    }

    /// Goes on telling the session by the hours that have become old enough, one after the other: in whichever steps it
    /// is told, it comes to the same. Where an hour of it is another now it is told from its beginning, and where there is none it goes.
    async fn session(&self, progress: &Progress, made: &mut Made) -> Result<(), DigestError> {
        // Hours of stretches that wait to be made anew tell what is no longer so, or are missing.
        if self.leaves_stale(progress) {
            return Ok(());
        }
        let known = progress.session.as_ref();
        let is_so = |known: &&Episode| !progress.session_is_stale && made.retold.is_none_or(|first| known.last < first);
        let told = known.filter(is_so);
        let hours = self.aged_after(told.map_or(0, |told| told.last), progress, made).await?;
        let hours: Vec<&Episode> = hours.iter().collect();
        let Some(span) = span(&told.into_iter().chain(hours.iter().copied()).collect::<Vec<_>>()) else {
            made.done.drop.extend(known.map(|known| known.id));
            return Ok(());
        };
        if hours.is_empty() {
            return Ok(());
        }
        let telling = self.tell_on(told, &hours).await?;
        if let Some(moved) = known.filter(|known| known.first != span.first) {
            made.done.drop.push(moved.id);
        }
        made.done.keep.push(self.episode(Level::Session, span, telling, known));
        Ok(())
    }

    /// The built-in goes hour by hour, so that it always comes to the same; a memory model is asked once for all of them.
    async fn tell_on(&self, told: Option<&Episode>, hours: &[&Episode]) -> Result<Telling, DigestError> {
        let at_once = if self.is_metered() { hours.len() } else { 1 };
        let mut telling = None;
        let mut before = told.map(|told| told.summary.clone());
        for hours in hours.chunks(at_once.max(1)) {
            let said = hours.iter().flat_map(|hour| again(hour)).collect();
            let told = self.summarise(before, said, Level::Session).await?;
            before = Some(told.text.clone());
            telling = Some(told);
        }
        match telling {
            Some(telling) => Ok(telling),
            None => self.summarise(before, Vec::new(), Level::Session).await,
        }
    }

    /// The hours that begin after a turn and are part of the session's summary by now, as many as one run tells.
    async fn aged_after(&self, after: u64, progress: &Progress, made: &mut Made) -> Result<Vec<Episode>, DigestError> {
        let mut hours = self.hours_after(after, made).await?;
        let old = made.last(progress).map_or(0, |last| aged(&hours, last, self.settings.hours_kept));
        made.done.more |= old > HOURS_MAX;
        hours.truncate(old.min(HOURS_MAX));
        Ok(hours)
    }

    /// The hours that begin after a turn, as they will be when this run is over: one more than is told, at least.
    async fn hours_after(&self, after: u64, made: &Made) -> Result<Vec<Episode>, DigestError> {
        let made_now = |hour: &&Episode| hour.level == Level::Hour && hour.first > after;
        let mut hours: Vec<Episode> = made.done.keep.iter().filter(made_now).cloned().collect();
        let limit = HOURS_MAX + 1 + made.done.drop.len();
        for hour in self.tier(Level::Hour, after, None, limit).await? {
            let replaced = hours.iter().any(|made| made.first == hour.first) || made.done.drop.contains(&hour.id);
            if !replaced {
                hours.push(hour);
            }
        }
        hours.sort_by_key(|hour| hour.first);
        Ok(hours)
    }

    async fn tier(
        &self,
        level: Level,
        after: u64,
        hour: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<Episode>, DigestError> {
        let wanted = Wanted { level, after, hour, limit };
        Ok(self.memory.parts.store.episodes().tier(self.scope, self.session, wanted).await?)
    }
}

/// An episode as things that were said.
fn again(episode: &Episode) -> Vec<Told> {
    told_by(&episode.summary, episode.from)
}

/// All that some episodes tell of.
fn span(episodes: &[&Episode]) -> Option<Span> {
    Some(Span {
        first: episodes.iter().map(|episode| episode.first).min()?,
        last: episodes.iter().map(|episode| episode.last).max()?,
        weight: episodes.iter().map(|episode| episode.weight).sum(),
        from: episodes.iter().map(|episode| episode.from).min()?,
        to: episodes.iter().map(|episode| episode.to).max()?,
    })
}
