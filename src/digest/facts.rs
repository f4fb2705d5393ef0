//! Facts learned from what users said: heard, weighed, and handed to the store, which lets facts follow.
//!
//! Only a user's own words are heard, as the client said them: no injected memory, no system prompt, no tool, no
//! model. Whoever understands them, patterns or a model, enters by [`Memory::weighed`]: the same admission, the same
//! reconciling.

use std::collections::BTreeMap;

use tracing::info;

use crate::fact::{
    self, Change, Evidence, Fact, Heard, Maker, Proposal, QUOTE_BYTES_MAX, Refusal, Statement, Status, Verdict, What,
};
use crate::id::MessageId;
use crate::memory::Memory;
use crate::message::{Message, Role};
use crate::scope::Scope;
use crate::store::{DueFacts, Erasure, FactCounts, Learned, StoreError, Understood};

/// Turns that are understood in one transaction.
const TURNS: usize = 64;

/// What understands messages, and in which version: another one makes all facts anew.
const MADE_WITH: &str = "builtin-facts-5";

/// What was understood of a turn.
#[derive(Debug, Default)]
pub(crate) struct Weighed {
    /// What it states.
    pub(crate) statements: Vec<Statement>,
    /// How often something was no fact, by reason.
    pub(crate) refused: BTreeMap<&'static str, u64>,
    /// Messages that ask for something to be forgotten.
    pub(crate) forgets: Vec<MessageId>,
}

impl Memory {
    /// Has all messages understood anew when something else understands them now.
    pub async fn check_facts(&self) -> Result<(), StoreError> {
        let again = self.parts.store.facts().facts_made_with(MADE_WITH).await?;
        if again > 0 {
            info!(turns = again, "{again} turns are understood anew: `{MADE_WITH}` is new");
        }
        Ok(())
    }

    /// Learns from a part of what was said. To be called again until there is nothing; answers how many turns there
    /// were.
    pub async fn learn_facts(&self) -> Result<usize, StoreError> {
        Ok(self.learn_some().await?.len())
    }

    /// The same, answering whose turns there were, one by one.
    pub async fn learn_some(&self) -> Result<Vec<Scope>, StoreError> {
        let due = self.parts.store.facts().fact_todo(TURNS).await?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        // Asked for first: a turn that was understood leaves the list, and nothing would ask for it again.
        self.ask_for_notes(&due).await?;
        let understood = due.iter().map(|due| self.understood(due)).collect();
        let Learned { mut turns, changes, forgets } = self.parts.store.facts().learn(understood).await?;
        self.meters().turns_understood.many(turns.len() as u64);
        changes.iter().for_each(|(scope, change)| self.tell_change(scope, change));
        // What somebody asked to have forgotten is not only taken back: its words go, as when a person erases a fact.
        for (scope, fact) in &forgets {
            self.parts.store.erasures().erase(Erasure::Fact(scope.clone(), *fact)).await?;
        }
        // They are looked at once more.
        turns.extend(forgets.into_iter().map(|(scope, _)| scope));
        Ok(turns)
    }

    /// What the built-in understands of a turn.
    fn understood(&self, due: &DueFacts) -> Understood {
        let mut all = Weighed::default();
        for (id, message) in due.turn.identified().filter(|(_, message)| is_users_own(message, &due.scope)) {
            let echoes: Vec<&str> = due.before.iter().map(String::as_str).collect();
            let heard = self.heard(message, &echoes);
            let extracted = fact::extract(&heard);
            extracted.refused.iter().for_each(|refused| all.refuse(refused.reason));
            self.weighed(&mut all, &heard, extracted.proposals, &self.said_in(due, id, message), Maker::Builtin);
        }
        let Weighed { statements, refused, forgets } = all;
        self.meters().facts_refused.many(refused.values().sum());
        let (scope, turn, stamp, maker) = (due.scope.clone(), due.turn.id, due.stamp, Maker::Builtin);
        let refused = refused.into_iter().collect();
        Understood { scope, turn, stamp, maker, statements, forgets, refused }
    }

    pub(super) fn heard<'a>(&self, message: &'a Message, echoes: &'a [&'a str]) -> Heard<'a> {
        Heard { text: &message.text, said_at: message.created_at, zone: self.settings.zone.clone(), echoes }
    }

    pub(super) fn said_in(&self, due: &DueFacts, message: MessageId, said: &Message) -> Evidence {
        let session = Some(due.turn.session);
        Evidence { message: Some(message), session, said_at: said.created_at, quote: String::new() }
    }

    /// What becomes of proposals about a message, whoever made them: they are admitted by rules, masked, and kept as
    /// statements from which facts follow.
    pub(crate) fn weighed(
        &self,
        all: &mut Weighed,
        heard: &Heard<'_>,
        proposals: Vec<Proposal>,
        evidence: &Evidence,
        maker: Maker,
    ) {
        let learned_at = self.parts.clock.now();
        for proposal in proposals {
            let standing = match fact::admit(&proposal, heard) {
                Verdict::Admit(status) => status,
                Verdict::Quarantine(reason) => {
                    all.refuse(reason);
                    Status::Quarantined
                }
                Verdict::Refuse(reason) => {
                    all.refuse(reason);
                    continue;
                }
            };
            let mut kept = proposal.masked();
            all.forgets.extend(evidence.message.filter(|_| kept.forgets));
            shorten(&mut kept.quote);
            all.statements.push(Statement::heard(kept, evidence.clone(), maker, standing, learned_at));
        }
    }

    /// Tells the log what was learned, by id and key; the user's words stay in the store.
    fn tell_change(&self, scope: &Scope, change: &Change) {
        let Change { what, fact: Fact { id, key, .. } } = change;
        match what {
            What::Add => self.meters().facts_learned.one(),
            What::Supersede => self.meters().facts_superseded.one(),
            _ => {}
        }
        let (what, key) = (what.as_str(), format!("{}/{}", key.category.as_str(), key.name));
        info!(tenant.id = %scope.tenant(), user.id = %scope.user(), fact.id = %id, fact.key = key, "Fact `{id}` ({key}): {what}");
    }

    /// Asks for every message of one user, or of everybody, to be understood again. Answers how many turns wait.
    pub async fn learn_again(&self, scope: Option<&Scope>) -> Result<u64, StoreError> {
        self.parts.store.facts().facts_again(scope).await
    }

    /// What a user's facts come to, counted.
    pub async fn fact_counts(&self, scope: &Scope) -> Result<FactCounts, StoreError> {
        self.parts.store.facts().fact_counts(scope).await
    }
}

impl Weighed {
    fn refuse(&mut self, reason: Refusal) {
        *self.refused.entry(reason.as_str()).or_default() += 1;
    }
}

/// Whether the user said this about themselves: somebody who is called otherwise is another person in the same chat.
pub(super) fn is_users_own(message: &Message, scope: &Scope) -> bool {
    let is_the_user = |name: &String| name.eq_ignore_ascii_case(scope.user().as_str());
    message.role == Role::User && message.name.as_ref().is_none_or(is_the_user)
}

fn shorten(quote: &mut String) {
    let end = (0..=QUOTE_BYTES_MAX.min(quote.len())).rev().find(|at| quote.is_char_boundary(*at));
    quote.truncate(end.unwrap_or_default());
}
