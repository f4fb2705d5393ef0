//! What a person sees of facts, writes down, corrects, takes back and undoes.

use jiff::Timestamp;

use super::ReviewError;
use super::once::Once;
use crate::fact::{
    Act, Category, Change, Fact, IMPORTANCE_MIN, Key, Statement, Status, VALUE_BYTES_MAX, canonical, importance,
    is_many, masked,
};
use crate::id::{FactId, UndoId};
use crate::memory::Memory;
use crate::scope::Scope;
use crate::session::RequestMark;
use crate::store::{
    FactHistory, Made, OnceWrite, OnceWritten, Page, PageRequest, RequestError, Undo, Undone, WhichFacts,
};

/// Longest name of a key, in characters.
const KEY_CHARS_MAX: usize = 80;

/// A fact that somebody writes down.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFact {
    /// The kind; `None` is found by the name.
    pub category: Option<Category>,
    /// What it is about; any of the names that a key is known by.
    pub key: String,
    /// What is known.
    pub value: String,
    /// How much it matters; `None` is as much as such facts do.
    pub importance: Option<f64>,
    /// Until when it holds.
    pub until: Option<Timestamp>,
}

/// What is to change about a fact.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FactPatch {
    /// What is true instead.
    pub value: Option<String>,
    /// How much it matters.
    pub importance: Option<f64>,
    /// Until when it holds.
    pub until: Option<Timestamp>,
}

/// What was undone.
#[derive(Debug, Clone, PartialEq)]
pub struct UndoneFacts {
    /// By which name it can be undone.
    pub id: UndoId,
    /// The facts that changed, as they are now.
    pub facts: Vec<Fact>,
}

impl Memory {
    /// A user's facts in the order they were first learned: those with a status now, or at a time before.
    pub async fn facts(
        &self,
        scope: &Scope,
        page: PageRequest,
        status: Option<Status>,
        as_of: Option<Timestamp>,
    ) -> Result<Page<Fact>, ReviewError> {
        let which = WhichFacts { page, status, now: self.parts.clock.now(), as_of };
        let found = self.parts.store.facts().facts_kept(scope, which).await;
        self.told(scope, None, "list_facts", found)
    }

    /// One fact.
    pub async fn fact(&self, scope: &Scope, id: FactId) -> Result<Fact, ReviewError> {
        let found = self.parts.store.facts().fact_kept(scope, id).await;
        let fact = self.told(scope, None, "read_fact", found)?.ok_or(ReviewError::UnknownFact(id))?;
        Ok(Fact { status: fact.status_at(self.parts.clock.now()), ..fact })
    }

    /// What happened to a fact and to others of its key.
    pub async fn fact_history(&self, scope: &Scope, id: FactId) -> Result<FactHistory, ReviewError> {
        let found = self.parts.store.facts().fact_history(scope, id).await;
        self.told(scope, None, "read_fact", found)?.ok_or(ReviewError::UnknownFact(id))
    }

    /// Writes a fact down. It takes the place of what was held.
    pub async fn add_fact(
        &self,
        scope: &Scope,
        new: NewFact,
        request: Option<&RequestMark>,
    ) -> Result<Fact, ReviewError> {
        if let Some(fact) = self.fact_before(scope, request).await? {
            return Ok(fact);
        }
        self.check("key", &new.key, KEY_CHARS_MAX)?;
        let value = self.check_value(&new.value)?;
        let key = canonical(new.category, &new.key, &value);
        let matters = check_importance(new.importance)?.unwrap_or_else(|| importance(&key));
        let said = Statement { until: new.until, ..self.by_hand(key, &value, Act::Correct, matters) };
        self.say(scope, vec![said], request).await
    }

    /// Sets a fact right. What it said before is superseded, and stays to be seen.
    pub async fn correct_fact(
        &self,
        scope: &Scope,
        id: FactId,
        patch: FactPatch,
        request: Option<&RequestMark>,
    ) -> Result<Fact, ReviewError> {
        if let Some(fact) = self.fact_before(scope, request).await? {
            return Ok(fact);
        }
        let held = self.held_fact(scope, id).await?;
        if patch == FactPatch::default() {
            return Err(ReviewError::NothingToChange);
        }
        let matters = check_importance(patch.importance)?.unwrap_or(held.importance);
        let value = match &patch.value {
            Some(value) => self.check_value(value)?,
            None => held.value.clone(),
        };
        let key = moved(&held, &value);
        let ends = (key != held.key).then(|| self.by_hand(held.key.clone(), &held.value, Act::End, matters));
        let said = self.by_hand(key, &value, Act::Correct, matters);
        let said = Statement { until: patch.until.or(held.until), ..said };
        self.say(scope, ends.into_iter().chain([said]).collect(), request).await
    }

    /// Takes a fact back. It is no longer told, and stays to be seen.
    pub async fn retract_fact(&self, scope: &Scope, id: FactId) -> Result<Fact, ReviewError> {
        let held = self.held_fact(scope, id).await?;
        let said = self.by_hand(held.key.clone(), &held.value, Act::End, held.importance);
        let changes = self.parts.store.facts().say(scope, vec![said]).await;
        self.told(scope, None, "retract_fact", changes)?;
        self.fact(scope, id).await
    }

    /// Undoes what happened to a fact, what a message or a time brought, or an undoing.
    pub async fn undo_facts(
        &self,
        scope: &Scope,
        what: Undo,
        request: Option<&RequestMark>,
    ) -> Result<UndoneFacts, ReviewError> {
        let id = self.parts.ids.undo(self.parts.clock.now());
        let undone = match request {
            None => {
                let undone = self.parts.store.facts().undo(scope, what, id).await;
                self.told(scope, None, "undo_facts", undone)?
            }
            Some(request) => {
                let before = self.made(scope, request).await?.map(Once::Before);
                let once = match before {
                    Some(before) => before,
                    None => self.once(scope, None, "undo_facts", request, OnceWrite::Undo(what, id)).await?,
                };
                match once {
                    Once::Written(OnceWritten::Undone(undone)) => undone,
                    Once::Before(Made::Undo(id, facts)) => return self.undone_again(scope, id, facts).await,
                    _ => return Err(RequestError::KeyReused.into()),
                }
            }
        };
        match undone {
            Undone::Done { id, changes } => Ok(UndoneFacts { id, facts: changed(changes) }),
            Undone::Nothing => Err(ReviewError::NothingToUndo),
            Undone::Unknown => Err(match what {
                Undo::Fact(id) => ReviewError::UnknownFact(id),
                Undo::Message(id) => ReviewError::NothingLearned(id),
                Undo::Undo(id) => ReviewError::UnknownUndo(id),
                Undo::Range { .. } => ReviewError::NothingToUndo,
            }),
        }
    }

    async fn undone_again(&self, scope: &Scope, id: UndoId, ids: Vec<FactId>) -> Result<UndoneFacts, ReviewError> {
        let mut facts = Vec::with_capacity(ids.len());
        for id in ids {
            facts.push(self.fact_again(scope, &Made::Fact(id)).await?);
        }
        Ok(UndoneFacts { id, facts })
    }

    /// The fact that the same request made before.
    async fn fact_before(&self, scope: &Scope, request: Option<&RequestMark>) -> Result<Option<Fact>, ReviewError> {
        let Some(request) = request else { return Ok(None) };
        match self.made(scope, request).await? {
            Some(made) => self.fact_again(scope, &made).await.map(Some),
            None => Ok(None),
        }
    }

    /// A fact that can be set right or taken back.
    async fn held_fact(&self, scope: &Scope, id: FactId) -> Result<Fact, ReviewError> {
        let fact = self.fact(scope, id).await?;
        match fact.status {
            Status::Active | Status::Provisional | Status::Quarantined | Status::Candidate => Ok(fact),
            status => Err(ReviewError::NotHeld { id, status }),
        }
    }

    fn by_hand(&self, key: Key, value: &str, act: Act, importance: f64) -> Statement {
        let now = self.parts.clock.now();
        Statement::by_hand(self.parts.ids.fact(now), key, value, act, importance, now)
    }

    /// Writes down, and answers the fact that holds now.
    async fn say(
        &self,
        scope: &Scope,
        statements: Vec<Statement>,
        request: Option<&RequestMark>,
    ) -> Result<Fact, ReviewError> {
        let (key, value) = statements.last().map(|said| (said.key.clone(), said.value.clone())).unzip();
        let changes = match request {
            None => {
                let changes = self.parts.store.facts().say(scope, statements).await;
                self.told(scope, None, "write_fact", changes)?
            }
            Some(request) => match self.once(scope, None, "write_fact", request, OnceWrite::Facts(statements)).await? {
                Once::Written(OnceWritten::Facts(changes)) => changes,
                Once::Before(made) => return self.fact_again(scope, &made).await,
                Once::Written(_) => return Err(ReviewError::NothingToChange),
            },
        };
        let meant = |fact: &Fact| Some(&fact.key) == key.as_ref() && Some(&fact.value) == value.as_ref();
        let fact = changed(changes).into_iter().rev().find(meant);
        fact.ok_or(ReviewError::NothingToChange)
    }

    /// A value as it may be kept: bounded, one line, its secrets masked.
    fn check_value(&self, value: &str) -> Result<String, ReviewError> {
        self.check("value", value, VALUE_BYTES_MAX / 4)?;
        let line: Vec<&str> = value.split_whitespace().collect();
        Ok(masked(&line.join(" ")).into_owned())
    }
}

/// Where somebody may have several, the value may name which one it is; another value is then another one.
fn moved(held: &Fact, value: &str) -> Key {
    let Key { category, name, .. } = &held.key;
    let named_by_value = is_many(*category, name) && canonical(Some(*category), name, &held.value) == held.key;
    if named_by_value { canonical(Some(*category), name, value) } else { held.key.clone() }
}

fn changed(changes: Vec<Change>) -> Vec<Fact> {
    changes.into_iter().map(|change| change.fact).collect()
}

fn check_importance(importance: Option<f64>) -> Result<Option<f64>, ReviewError> {
    match importance {
        Some(given) if !(IMPORTANCE_MIN..=1.0).contains(&given) => Err(ReviewError::Importance(given)),
        given => Ok(given),
    }
}
