//! What a person sees of topics, and says about them.

use std::collections::HashMap;

use super::{ReviewError, StoredMessage, stored};
use crate::id::{SessionId, TopicId, TurnId};
use crate::memory::Memory;
use crate::message::Message;
use crate::recall::{Ask, Fate, Ranked, RecallError};
use crate::scope::Scope;
use crate::session::Turn;
use crate::store::{KeptTopic, Moment, Page, PageRequest, TopicPatch, WhichTopics};
use crate::topic::{Feedback, TITLE_CHARS_MAX, Topic, TopicStats, priority};

/// Messages of a topic that its context repeats: those that its summary does not tell, and never fewer or more than this.
const RECENT_MESSAGES: std::ops::RangeInclusive<usize> = 4..=24;
/// Most tags of a topic, and their length in characters.
const TAGS_MAX: usize = 20;
const TAG_CHARS_MAX: usize = 40;
/// Messages that a search looks at.
const SEARCHED: usize = 100;
/// Messages that are told for each topic that was found.
const HITS_TOLD: usize = 3;

/// A topic with what time made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicView {
    /// The topic, and whether it was forgotten.
    pub kept: KeptTopic,
    /// What is left of its importance now.
    pub priority: f64,
}

/// What the model would be told about a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicContext {
    /// The topic.
    pub topic: Topic,
    /// Its last messages, oldest first.
    pub recent: Vec<Message>,
}

/// A message of a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicMessage {
    /// The conversation it is in.
    pub session: SessionId,
    /// The message.
    pub stored: StoredMessage,
}

/// A topic that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundTopic {
    /// The topic.
    pub view: TopicView,
    /// The score of its best message; only comparable within one answer. Nothing when it was found by its tag.
    pub score: Option<f32>,
    /// The messages by which it was found, best first.
    pub hits: Vec<(f32, TopicMessage)>,
}

impl Memory {
    /// A user's topics, oldest first.
    pub async fn topics(&self, scope: &Scope, which: WhichTopics) -> Result<Page<TopicView>, ReviewError> {
        let found = self.parts.store.topics().topics_kept(scope, which).await;
        let Page { items, next } = self.told(scope, None, "list_topics", found)?;
        Ok(Page { items: items.into_iter().map(|kept| self.seen(kept)).collect(), next })
    }

    /// A user's topics that the next clean-up forgets, the lowest priority first.
    pub async fn topics_to_forget(&self, scope: &Scope) -> Result<Vec<TopicView>, ReviewError> {
        let found = self.told(scope, None, "list_topics", self.fading_topics(scope).await)?;
        Ok(found.into_iter().map(|kept| self.seen(kept)).collect())
    }

    /// One topic.
    pub async fn topic(&self, scope: &Scope, id: TopicId) -> Result<TopicView, ReviewError> {
        let found = self.parts.store.topics().topic_kept(scope, id).await;
        let kept = self.told(scope, None, "read_topic", found)?.ok_or(ReviewError::UnknownTopic(id))?;
        Ok(self.seen(kept))
    }

    fn seen(&self, kept: KeptTopic) -> TopicView {
        let priority = priority(&kept.topic, self.parts.clock.now());
        TopicView { kept, priority }
    }

    /// What is told about a topic.
    pub async fn topic_stats(&self, scope: &Scope, id: TopicId) -> Result<(Topic, TopicStats), ReviewError> {
        let topic = self.topic(scope, id).await?.kept.topic;
        let archived = self.parts.store.topics().archived_messages(scope, topic.id).await;
        let stats = topic.stats(self.told(scope, None, "read_topic", archived)?, self.parts.clock.now());
        Ok((topic, stats))
    }

    /// What is told about the topic that a conversation is in.
    pub async fn session_topic(&self, scope: &Scope, id: SessionId) -> Result<(Topic, TopicStats), ReviewError> {
        let at = Moment { session: id, before: None };
        let outline = self.parts.store.topics().topic_outline(scope, Some(at)).await;
        match self.told(scope, Some(id), "read_topic", outline)?.current {
            Some(topic) => self.topic_stats(scope, topic).await,
            None => Err(ReviewError::NoTopic(self.session(scope, id).await?.id)),
        }
    }

    /// Which topics turns belong to; those that wait for theirs are left out.
    pub async fn topics_of(&self, scope: &Scope, turns: &[TurnId]) -> Result<HashMap<TurnId, TopicId>, ReviewError> {
        let found = self.parts.store.topics().topics_of(scope, turns).await;
        Ok(self.told(scope, None, "read_topic", found)?.into_iter().collect())
    }

    /// All messages of a topic in the order in which they were stored, or those that are not archived. The cursor counts turns in its upper part and
    /// messages within the turn in its lower sixteen bits.
    pub async fn topic_messages(
        &self,
        scope: &Scope,
        id: TopicId,
        archived: bool,
        page: PageRequest,
    ) -> Result<Page<TopicMessage>, ReviewError> {
        let after = page.after.unwrap_or(0);
        // The turn that the last page ended in is read again.
        let mut turns_after = (after >> 16).saturating_sub(1);
        let mut found = Vec::new();
        loop {
            let turns = PageRequest { after: Some(turns_after), ..page };
            let turns = self.parts.store.topics().topic_turns(scope, id, archived, turns).await;
            let turns = self.told(scope, None, "read_topic", turns)?.ok_or(ReviewError::UnknownTopic(id))?;
            found.extend(turns.items.iter().flat_map(messages_of).filter(|(cursor, _)| *cursor > after));
            match turns.next {
                Some(next) if found.len() <= page.limit => turns_after = next,
                _ => return Ok(Page::cut(found, page.limit)),
            }
        }
    }

    /// What the model would be told about a topic: its summary, and the messages that it does not tell.
    pub async fn topic_context(&self, scope: &Scope, id: TopicId) -> Result<TopicContext, ReviewError> {
        let KeptTopic { topic, untold, .. } = self.topic(scope, id).await?.kept;
        let recent_max = (untold as usize).clamp(*RECENT_MESSAGES.start(), *RECENT_MESSAGES.end());
        let turns = self.parts.store.topics().last_topic_turns(scope, id, recent_max).await;
        let turns = self.told(scope, None, "read_topic", turns)?.ok_or(ReviewError::UnknownTopic(id))?;
        let spoken = turns.into_iter().flat_map(|turn| turn.messages).filter(Message::is_spoken);
        let mut recent: Vec<Message> = spoken.collect();
        recent.drain(..recent.len().saturating_sub(recent_max));
        Ok(TopicContext { topic, recent })
    }

    /// Changes what a topic is called, or its tags.
    pub async fn update_topic(
        &self,
        scope: &Scope,
        id: TopicId,
        title: Option<String>,
        tags: Option<Vec<String>>,
    ) -> Result<TopicView, ReviewError> {
        if let Some(title) = &title {
            self.check("title", title, TITLE_CHARS_MAX)?;
        }
        let tags = tags.map(|tags| self.check_tags(tags)).transpose()?;
        self.change_topic(scope, id, TopicPatch { title, tags, feedback: None }).await
    }

    /// Says whether a topic was useful, which makes it last longer or fade sooner.
    pub async fn rate_topic(&self, scope: &Scope, id: TopicId, feedback: Feedback) -> Result<TopicView, ReviewError> {
        self.change_topic(scope, id, TopicPatch { feedback: Some(feedback), ..TopicPatch::default() }).await
    }

    async fn change_topic(&self, scope: &Scope, id: TopicId, patch: TopicPatch) -> Result<TopicView, ReviewError> {
        let changed = self.parts.store.topics().change_topic(scope, id, patch).await;
        let kept = self.told(scope, None, "change_topic", changed)?.ok_or(ReviewError::UnknownTopic(id))?;
        Ok(self.seen(kept))
    }

    /// Tags without spaces around them, each once.
    fn check_tags(&self, tags: Vec<String>) -> Result<Vec<String>, ReviewError> {
        if tags.len() > TAGS_MAX {
            return Err(ReviewError::TooManyTags { count: tags.len(), tags_max: TAGS_MAX });
        }
        let mut kept: Vec<String> = Vec::with_capacity(tags.len());
        for tag in tags.iter().map(|tag| tag.trim()) {
            self.check("tag", tag, TAG_CHARS_MAX)?;
            if !kept.iter().any(|known| known == tag) {
                kept.push(tag.to_owned());
            }
        }
        Ok(kept)
    }

    /// Finds the topics in which something was said about a question, and those that have it as a tag.
    pub async fn search_topics(
        &self,
        scope: &Scope,
        query: &str,
        limit: usize,
    ) -> Result<Vec<FoundTopic>, ReviewError> {
        self.check("query", query, self.of(scope.tenant()).settings.query_chars_max)?;
        let tagged = WhichTopics { limit, tag: Some(query.trim().to_owned()), ..WhichTopics::default() };
        let tagged = self.topics(scope, tagged).await?.items;
        let mut found: Vec<FoundTopic> =
            tagged.into_iter().map(|view| FoundTopic { view, score: None, hits: Vec::new() }).collect();
        for (topic, hits) in self.hits_by_topic(scope, query).await? {
            if let Some(known) = found.iter_mut().find(|known| known.view.kept.topic.id == topic) {
                known.hits = hits;
            } else if found.len() < limit {
                let (view, score) = (self.topic(scope, topic).await?, hits.first().map(|(score, _)| *score));
                found.push(FoundTopic { view, score, hits });
            }
        }
        Ok(found)
    }

    /// The best messages about a question by topic, the topic of the best one first.
    async fn hits_by_topic(
        &self,
        scope: &Scope,
        query: &str,
    ) -> Result<Vec<(TopicId, Vec<(f32, TopicMessage)>)>, ReviewError> {
        let ask = Ask { question: query.to_owned(), ranked_max: SEARCHED, ..Ask::default() };
        let ranked = match self.recall.recall(scope, &ask).await {
            Ok(recalled) => recalled.ranked,
            Err(RecallError::Store(error)) => return self.told(scope, None, "search_topics", Err(error)),
            Err(RecallError::Interrupted) => Vec::new(),
        };
        let related: Vec<&Ranked> = ranked.iter().filter(|ranked| ranked.fate != Fate::Unrelated).collect();
        let ids: Vec<TurnId> = related.iter().map(|ranked| ranked.message.turn()).collect();
        let topics = self.topics_of(scope, &ids).await?;
        let turns = self.parts.store.turns_by_id(scope, &ids).await;
        let turns = self.told(scope, None, "search_topics", turns)?;
        let mut found: Vec<(TopicId, Vec<(f32, TopicMessage)>)> = Vec::new();
        for ranked in related {
            let Some((topic, hit)) = topics.get(&ranked.message.turn()).zip(hit(ranked, &turns)) else { continue };
            match found.iter_mut().find(|(known, _)| known == topic) {
                Some((_, hits)) if hits.len() < HITS_TOLD => hits.push((ranked.score, hit)),
                Some(_) => {}
                None => found.push((*topic, vec![(ranked.score, hit)])),
            }
        }
        Ok(found)
    }
}

fn hit(ranked: &Ranked, turns: &[Turn]) -> Option<TopicMessage> {
    let turn = turns.iter().find(|turn| turn.id == ranked.message.turn())?;
    let (id, message) = turn.identified().find(|(id, _)| *id == ranked.message)?;
    let stored = StoredMessage { id, turn: turn.id, message: message.clone() };
    Some(TopicMessage { session: turn.session, stored })
}

/// A turn's messages with their cursors.
fn messages_of((key, turn): &(u64, Turn)) -> Vec<(u64, TopicMessage)> {
    let message =
        |(n, (_, stored)): (u64, (u64, StoredMessage))| (key << 16 | n, TopicMessage { session: turn.session, stored });
    (1..).zip(stored(turn)).map(message).collect()
}
