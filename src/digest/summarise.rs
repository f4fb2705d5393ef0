//! Topic summaries: what was said in a topic before its last messages, told on as more of them leave.
//!
//! Messages leave in steps, as turns leave a session's window, so that telling late, early or all at once comes to the same.
//! What comes meanwhile stands after what was read and waits for the next step.

use super::consolidate::told;
use super::jobs::DigestError;
use super::propose::Asking;
use crate::episode::{Leaving, Level, cut};
use crate::memory::Memory;
use crate::model::builtin::summary;
use crate::model::summarise::{Talk, Telling, Told};
use crate::store::{Claim, Effect, TopicTold, Untold, UntoldTurn};

/// Turns that are read at once, if that fills a window; what is left is told by the next run.
const TURNS_MAX: usize = 64;

impl Memory {
    /// Tells one of a user's topics on.
    pub(super) async fn summarise_topic(&self, claim: &Claim, patient: bool) -> Result<Effect, DigestError> {
        // A turn has one message or more, so that so many turns fill the window: of fewer none might leave it.
        let turns_max = TURNS_MAX.max(self.settings.episodes.topic.at);
        let Some(untold) = self.parts.store.topics().topic_to_tell(&claim.scope, turns_max).await? else {
            return Ok(Effect::Nothing);
        };
        let rests_until = self.rests_until(claim, untold.last_used, untold.bytes()).filter(|_| patient);
        if let Some(until) = rests_until {
            return Ok(Effect::Later(until));
        }
        let steps = self.steps(&untold);
        let asking = Asking { claim, topic: Some(untold.id) };
        let telling = self.tell_on(asking, untold.summary.clone(), &steps).await?;
        let read = steps.concat().iter().map(|turn| (turn.cursor, turn.stamp)).collect();
        let Telling { text, title, made_by } = telling;
        let summary = Some(text).filter(|text| !text.is_empty());
        let done = TopicTold { id: untold.id, from: untold.told, read, summary, title, told_by: made_by };
        Ok(Effect::TellTopic(Box::new(done)))
    }

    /// The turns that leave, in the steps in which they are told. A model is asked once for all of them.
    fn steps(&self, untold: &Untold) -> Vec<Vec<UntoldTurn>> {
        let leaving: Vec<Leaving> =
            untold.turns.iter().map(|turn| Leaving { number: turn.cursor, weight: turn.messages }).collect();
        let cuts = cut(untold.told + 1, &leaving, None, &self.settings.episodes.topic);
        let turns_of = |first: u64, last: u64| {
            let within = |turn: &&UntoldTurn| (first..=last).contains(&turn.cursor);
            untold.turns.iter().filter(within).cloned().collect::<Vec<_>>()
        };
        match (cuts.first(), cuts.last()) {
            (Some(first), Some(last)) if self.parts.summariser.is_metered() => vec![turns_of(first.first, last.last)],
            _ => cuts.iter().map(|cut| turns_of(cut.first, cut.last)).collect(),
        }
    }

    async fn tell_on(
        &self,
        asking: Asking<'_>,
        before: Option<String>,
        steps: &[Vec<UntoldTurn>],
    ) -> Result<Telling, DigestError> {
        let tokens_max = self.settings.episodes.tokens_max(Level::Hour);
        let nobody = summary::NAME.to_owned();
        let mut telling = Telling { text: before.unwrap_or_default(), title: None, made_by: nobody };
        for step in steps {
            let said: Vec<Told> = step.iter().filter_map(|turn| turn.turn.as_ref()).flat_map(told).collect();
            if said.is_empty() {
                continue;
            }
            let before = Some(telling.text).filter(|text| !text.is_empty());
            telling = self.say_briefly(asking, Talk { before, said, tokens_max, is_topic: true }).await?;
        }
        Ok(telling)
    }
}

impl Untold {
    /// How much its turns say.
    fn bytes(&self) -> u64 {
        let turns = self.turns.iter().filter_map(|turn| turn.turn.as_ref());
        turns.flat_map(|turn| &turn.messages).map(|message| message.text.len() as u64).sum()
    }
}
