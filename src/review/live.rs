//! A visitor's session, as a person sees it: looking, adding, moving on, ending. Looking from aside does not keep it
//! alive.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{ContextView, PastTurn, ReviewError, StoredMessage, stored};
use crate::id::TurnId;
use crate::live::LiveKey;
use crate::memory::{ChannelTally, Memory};
use crate::recall::Aside;
use crate::scope::Tenant;
use crate::session::{
    AddedMessage, SessionEnd, SessionPatch, SessionSeed, Turn, TurnDraft, fit, for_prompt, group, window,
};
use crate::store::live::{LiveChange, LiveCount, LiveError, Look, Seen};
use crate::store::{Page, PageRequest};

impl Memory {
    /// Makes a visitor's session; one that is there already is answered as it is.
    pub async fn begin_live(&self, key: &LiveKey, seed: SessionSeed) -> Result<Seen, ReviewError> {
        let memory = self.visited(key)?;
        memory.check_metadata(&seed.metadata)?;
        Ok(memory.let_in(key, seed, 0).await?)
    }

    /// Looks a visitor's session up.
    pub async fn live_session(&self, key: &LiveKey) -> Result<Seen, ReviewError> {
        let found = self.live.look(key, Look::Aside).await?;
        found.ok_or_else(|| LiveError::Gone(key.clone()).into())
    }

    /// A tenant's sessions of visitors, oldest first.
    pub async fn live_sessions(&self, tenant: &Tenant, page: PageRequest) -> Result<Page<Seen>, ReviewError> {
        Ok(self.live.store.list(tenant, page, self.live.now()).await?)
    }

    /// How many of them there are, and what they take.
    pub async fn live_count(&self, tenant: Option<&Tenant>) -> Result<LiveCount, ReviewError> {
        Ok(self.live.store.count(tenant).await?)
    }

    /// How many came and how they went, by channel.
    pub async fn live_tallies(&self, tenant: &Tenant) -> Result<BTreeMap<String, ChannelTally>, ReviewError> {
        Ok(self.live.tallies(tenant).await?)
    }

    /// When a session ends if nobody comes back.
    pub fn live_until(&self, seen: &Seen) -> Timestamp {
        let now = self.live.now();
        let left = seen.lease.ends().saturating_sub(now.steady);
        now.wall.saturating_add(left).unwrap_or(Timestamp::MAX)
    }

    /// Changes a session's metadata or time to live. That counts as coming back.
    pub async fn update_live(&self, key: &LiveKey, patch: SessionPatch) -> Result<Seen, ReviewError> {
        let seen = self.live_session(key).await?;
        self.check_metadata(&patch.applied_to(&seen.session.metadata()))?;
        let memory = self.of(&key.tenant);
        Ok(memory.change_live(key, LiveChange::Patch(patch)).await?.seen)
    }

    /// Removes a session and tells nobody. Answers how many turns were in it.
    pub async fn forget_live(&self, key: &LiveKey) -> Result<u64, ReviewError> {
        let gone = self.take_live(key).await?;
        gone.map(|seen| seen.session.turn_count()).ok_or_else(|| LiveError::Gone(key.clone()).into())
    }

    /// Ends a session, and tells whoever waits for that.
    pub async fn end_session(&self, key: &LiveKey) -> Result<SessionEnd, ReviewError> {
        self.end_live(key).await?.ok_or_else(|| LiveError::Gone(key.clone()).into())
    }

    /// Lets a session go on under another name of its tenant, with some of its metadata changed. Nobody is told of an
    /// end: it goes on, with the same beginning.
    pub async fn transfer_live(&self, key: &LiveKey, to: &LiveKey, patch: SessionPatch) -> Result<Seen, ReviewError> {
        let seen = self.live_session(key).await?;
        self.check_metadata(&patch.applied_to(&seen.session.metadata()))?;
        let patience = self.of(&key.tenant).settings.tools_patience;
        let since = self.live.now().wall.saturating_sub(patience).unwrap_or(Timestamp::MIN);
        if seen.session.is_busy(since) {
            return Err(ReviewError::Busy(key.clone()));
        }
        let moved = self.live.store.rename(key, to, self.live.now()).await?;
        moved.ok_or_else(|| LiveError::Gone(key.clone()))?;
        let seen = self.of(&key.tenant).change_live(to, LiveChange::Patch(patch)).await?.seen;
        self.live.came_over(&seen);
        Ok(seen)
    }

    /// The turns of a session that are kept as they were said, by number.
    pub async fn live_turns(&self, key: &LiveKey, page: PageRequest) -> Result<Page<Turn>, ReviewError> {
        let seen = self.live_session(key).await?;
        let after = |turn: &Turn| page.after.is_none_or(|after| turn.number > after);
        let turns = seen.session.turns(key.id()).filter(|turn| page.superseded || !turn.superseded).filter(after);
        let found = turns.take(page.limit.saturating_add(1)).map(|turn| (turn.number, turn)).collect();
        Ok(Page::cut(found, page.limit))
    }

    /// Why the model was reminded of what it was; `None` when nothing is kept about that.
    pub async fn live_trace(&self, key: &LiveKey, turn: TurnId) -> Result<Option<serde_json::Value>, ReviewError> {
        let seen = self.live_session(key).await?;
        if seen.session.turn(key.id(), turn).is_none() {
            return Err(LiveError::NoSuchTurn(turn).into());
        }
        Ok(seen.session.trace(turn).and_then(|trace| serde_json::from_str(trace).ok()))
    }

    /// The messages of a session that are kept as they were said, oldest first.
    pub async fn live_messages(&self, key: &LiveKey, page: PageRequest) -> Result<Page<StoredMessage>, ReviewError> {
        let seen = self.live_session(key).await?;
        let shown = seen.session.turns(key.id()).filter(|turn| page.superseded || !turn.superseded);
        let after = page.after.unwrap_or(0);
        let found = shown.flat_map(|turn| stored(&turn)).filter(|(cursor, _)| *cursor > after);
        Ok(Page::cut(found.take(page.limit.saturating_add(1)).collect(), page.limit))
    }

    /// Adds an exchange that took place elsewhere, without asking a model.
    pub async fn add_live_turn(&self, key: &LiveKey, turn: PastTurn) -> Result<Turn, ReviewError> {
        let memory = self.visited(key)?;
        let draft = memory.draft(turn)?;
        memory.add_drafts(key, vec![draft]).await?.pop().ok_or(ReviewError::Nothing)
    }

    /// Adds loose messages, without asking a model; a user's message opens a turn, the others join it.
    pub async fn add_live_messages(
        &self,
        key: &LiveKey,
        messages: Vec<AddedMessage>,
    ) -> Result<Vec<Turn>, ReviewError> {
        let memory = self.visited(key)?;
        memory.check_messages(&messages)?;
        let clock = &memory.parts.clock;
        let seen = self.live_session(key).await?;
        let now = || seen.session.time_of_next(clock.now());
        let messages = messages.into_iter().map(|added| added.stamped(now)).collect();
        let draft = |messages: Vec<crate::message::Message>| TurnDraft {
            id: memory.parts.ids.turn(clock.now()),
            created_at: messages.first().map(|message| message.created_at),
            messages,
            metadata: serde_json::Map::new(),
        };
        let drafts = group(false, messages).turns.into_iter().map(draft).collect();
        memory.add_drafts(key, drafts).await
    }

    async fn add_drafts(&self, key: &LiveKey, drafts: Vec<TurnDraft>) -> Result<Vec<Turn>, ReviewError> {
        self.live_session(key).await?;
        let ids: Vec<TurnId> = drafts.iter().map(|draft| draft.id).collect();
        let seen = self.add_live(key, SessionSeed::default(), drafts).await?.seen;
        Ok(ids.into_iter().filter_map(|id| seen.session.turn(key.id(), id)).collect())
    }

    /// What the model would be shown for a question in this session.
    pub async fn live_context(&self, key: &LiveKey, query: Option<&str>) -> Result<ContextView, ReviewError> {
        let memory = self.visited(key)?;
        let (settings, templates) = (&memory.settings, &memory.templates);
        if let Some(query) = query {
            self.check("query", query, settings.query_chars_max)?;
        }
        let seen = self.live_session(key).await?;
        let shown = |turn: &Turn| turn.enters_context() && !turn.superseded;
        let turns: Vec<Turn> = seen.session.turns(key.id()).filter(shown).map(for_prompt).collect();
        let sample = turns.iter().map(|turn| turn.question().text.as_str()).collect::<Vec<_>>().join("\n");
        let template = templates.choose(None, query.unwrap_or(&sample));
        let limit = settings.model_tokens_max.saturating_sub(settings.answer_tokens);
        let fitted = fit(window(&turns, usize::MAX), &[query.unwrap_or_default()], limit)?;
        Ok(ContextView {
            summaries: seen.session.summaries().map(|told| Aside::told_in_visit(told, key.id())).collect(),
            language: template.language.clone(),
            messages_in_context: fitted.messages_in_context(),
            text: template.conversation(&fitted.messages),
            messages: fitted.messages.into_iter().cloned().collect(),
            recalled: None,
        })
    }

    /// The memory as the visitor's tenant has it, if it has live sessions at all.
    fn visited(&self, key: &LiveKey) -> Result<Self, ReviewError> {
        let memory = self.of(&key.tenant);
        if memory.settings.live.enabled { Ok(memory) } else { Err(ReviewError::NoVisits(key.tenant.clone())) }
    }
}
