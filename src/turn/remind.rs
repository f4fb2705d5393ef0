//! What is recalled for a question, in the time that a request has for it.
//!
//! A turn without reminders is worth more than no turn: recall that is late or fails costs the reminders and the mark
//! `ok`, never the answer. A load that outlasts the request goes on for the next one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tracing::{debug, warn};

use super::Health;
use crate::clarify::Chosen;
use crate::id::{MessageId, SessionId, TopicId};
use crate::memory::Memory;
use crate::message::Message;
use crate::recall::{Aside, Ask, RANKED, RecallError, Recalled, RunningTopic};
use crate::scope::Scope;
use crate::session::InTopic;
use crate::store::Moment;
use crate::topic::Placement;

/// Turns of an older topic that a question which returns to it is shown: four messages.
const TOPIC_TURNS_SHOWN: usize = 2;

/// What was recalled within the time a request has for it.
#[derive(Debug, Clone)]
pub struct Reminded {
    /// What was recalled; nothing when it was late or failed.
    pub recalled: Recalled,
    /// Whether it went as it should.
    pub health: Health,
    /// How long it took.
    pub took: Duration,
    /// The topic that the question belongs to; nothing when that is found out later.
    pub topic: Option<InTopic>,
    /// What the question chose, if it answered a clarification.
    pub clarification: Option<Chosen>,
}

impl Reminded {
    /// Nothing was asked of recall.
    pub(super) fn nothing() -> Self {
        Self {
            recalled: Recalled::default(),
            health: Health::Ok,
            took: Duration::ZERO,
            topic: None,
            clarification: None,
        }
    }
}

/// What was recalled, with the messages that were only found.
#[derive(Debug, Clone)]
pub struct Explained {
    /// What was recalled.
    pub recalled: Recalled,
    /// The found messages and their conversations, as far as they could be read.
    pub found: HashMap<MessageId, (SessionId, Message)>,
}

impl Memory {
    /// Recalls what was said about a question, within [`RecallSettings::patience`](crate::recall::RecallSettings).
    pub async fn remind(&self, scope: &Scope, ask: Ask) -> Reminded {
        let (session, mut ask) = (ask.session, self.in_our_zone(ask));
        let started = Instant::now();
        let patience = self.settings.recall.patience;
        let mut topic = None;
        let ended = timeout(patience, async {
            topic = self.place(scope, &mut ask).await;
            self.recall.recall(scope, &ask).await
        });
        let ended = ended.await;
        let took = started.elapsed();
        self.count_recall(took);
        let (failure, is_away) = match ended {
            Ok(Ok(recalled)) => return Reminded { recalled, health: Health::Ok, took, topic, clarification: None },
            Ok(Err(error)) => (error.to_string(), matches!(error, RecallError::Store(cause) if cause.is_away())),
            Err(_) => (format!("it took longer than {} ms (`recall_timeout`)", patience.as_millis()), false),
        };
        self.went_without(scope, session, &failure, is_away);
        Reminded { recalled: Recalled::default(), health: Health::Degraded, took, topic, clarification: None }
    }

    /// Counts a question without reminders, and says so: the first, and then one a minute. That the database is away is known.
    fn went_without(&self, scope: &Scope, session: Option<SessionId>, failure: &str, is_away: bool) {
        self.meters().recall_failures.one();
        let session = session.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let unsaid = match is_away {
            true => None,
            false => self.without_reminders.happened(self.parts.clock.reading().steady),
        };
        match unsaid {
            None => debug!(session.id = %session, operation = "recall", "A question goes without reminders: {failure}"),
            Some(others) => {
                let others = if others > 0 { format!("; so did {others} before it") } else { String::new() };
                warn!(tenant.id = %scope.tenant(), user.id = %scope.user(), session.id = %session,
                      operation = "recall", error = %failure,
                      "A question in session `{session}` goes without reminders: {failure}{others}");
            }
        }
    }

    /// Finds the topic that a question belongs to, and tells recall about it. What fails here is done in the background, and so is a
    /// question that comes with what was said before it: that is placed first.
    async fn place(&self, scope: &Scope, ask: &mut Ask) -> Option<InTopic> {
        if ask.running.is_some() {
            return None;
        }
        let at = ask.follows.unwrap_or(Moment { session: ask.session?, before: None });
        let new_id = || self.parts.ids.topic(self.parts.clock.now());
        let placed = self.topics.place(scope, at, &ask.question, new_id).await;
        let placed = placed.inspect_err(|error| self.report(scope, ask.session, "place_in_topic", error)).ok()?;
        if let (Placement::Return(id), Some(running)) = (placed.placed.placement, &placed.running) {
            self.show_topic(scope, id, running, ask).await;
        }
        ask.topic = placed.running;
        Some(placed.topic)
    }

    /// A question that returns to an older topic is shown that topic's summary and last messages. Without its summary it
    /// goes on: the messages are there.
    async fn show_topic(&self, scope: &Scope, id: TopicId, running: &RunningTopic, ask: &mut Ask) {
        let last = running.last.iter().rev().take(TOPIC_TURNS_SHOWN).copied();
        ask.returns_to = last.filter(|turn| !ask.shown.contains(turn)).collect();
        match self.parts.store.topics().topic_kept(scope, id).await {
            Ok(kept) => {
                let summary = kept.and_then(|kept| kept.topic.summary);
                ask.asides.extend(summary.map(|summary| Aside::of_topic(id, &running.title, &summary)));
            }
            Err(error) => self.report(scope, ask.session, "read_topic", &error),
        }
    }

    /// Reads the topic that a turn has changed, so that the next question need not.
    pub(super) fn follow_topics(&self, scope: &Scope) {
        let (desk, scope) = (Arc::clone(&self.topics), scope.clone());
        // Whoever asks next reads what could not be read now.
        self.parts.beside.spawn(async move { desk.shelf(&scope, None).await.map(drop) });
    }

    /// Recalls what was said about a question, for somebody who wants to know why; it takes the time it takes.
    pub async fn explain(&self, scope: &Scope, ask: Ask) -> Result<Explained, RecallError> {
        let mut ask = self.of(scope.tenant()).in_our_zone(ask);
        if ask.ranked_max == 0 {
            ask.ranked_max = RANKED;
        }
        let started = Instant::now();
        self.place(scope, &mut ask).await;
        let recalled = self.recall.recall(scope, &ask).await;
        self.count_recall(started.elapsed());
        let recalled = recalled.inspect_err(|error| {
            self.meters().recall_failures.one();
            if let RecallError::Store(error) = error {
                self.report(scope, ask.session, "recall", error);
            }
        })?;
        let turns: Vec<_> = recalled.ranked.iter().map(|ranked| ranked.message.turn()).collect();
        let turns = self.parts.store.turns_by_id(scope, &turns).await?;
        let found = turns.iter().flat_map(|turn| {
            turn.identified().map(|(id, message)| (id, (turn.session, message.clone()))).collect::<Vec<_>>()
        });
        Ok(Explained { recalled, found: found.collect() })
    }

    /// "Yesterday" is somebody's yesterday: the asker's, or the one of the settings.
    fn in_our_zone(&self, mut ask: Ask) -> Ask {
        ask.zone.get_or_insert_with(|| self.settings.zone.clone());
        ask
    }

    fn count_recall(&self, took: Duration) {
        self.meters().recalls.one();
        self.meters().recall_micros.many(took.as_micros() as u64);
    }
}
