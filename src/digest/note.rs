//! Facts that a memory model notes, when a conversation rests: one question for all that was said since it was last
//! asked.
//!
//! What it notes is a proposal as the patterns' are, and enters at the same place. A quote that is in no message, a
//! category that does not exist or an order in disguise is refused there, whoever proposes it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::facts::{Weighed, is_users_own};
use super::jobs::DigestError;
use super::propose::Asking;
use crate::fact::{Act, Category, Maker, Proposal, canonical, importance};
use crate::id::{MessageId, SessionId};
use crate::job::JobKind;
use crate::language::{Tongue, is_first_person, tongue, words};
use crate::memory::Memory;
use crate::message::Message;
use crate::model::memory::{NotedFact, Utterance};
use crate::store::{Claim, DueFacts, Effect, Noted, StoreError, Understood, Unread};

/// Turns that a model reads at once.
const TURNS_MAX: usize = 24;
/// A model is never as sure as the plain words that a pattern finds.
const CONFIDENCE_MAX: f64 = 0.85;

/// A user's message of a turn.
struct Said<'a> {
    due: &'a DueFacts,
    id: MessageId,
    message: &'a Message,
}

impl Memory {
    /// Asks for the sessions of these turns to be read, if somebody can.
    pub(super) async fn ask_for_notes(&self, due: &[DueFacts]) -> Result<(), StoreError> {
        if self.parts.summariser.note_facts(Vec::new()).is_none() {
            return Ok(());
        }
        let mut asked: BTreeSet<SessionId> = BTreeSet::new();
        for DueFacts { scope, turn, .. } in due {
            if asked.insert(turn.session) {
                self.parts.store.jobs().enqueue(scope, turn.session, JobKind::LEARN).await?;
            }
        }
        Ok(())
    }

    /// Has a memory model note what was stated in a session since it last did.
    pub(super) async fn note_facts(&self, claim: &Claim, patient: bool) -> Result<Effect, DigestError> {
        let session = claim.job.session;
        let unread = self.parts.store.facts().unread(&claim.scope, session, TURNS_MAX).await?;
        let Some(unread) = unread.filter(|unread| !unread.turns.is_empty()) else { return Ok(Effect::Nothing) };
        let rests_until = self.rests_until(claim, last_said(&unread), bytes(&unread)).filter(|_| patient);
        if let Some(until) = rests_until {
            return Ok(Effect::Later(until));
        }
        let said = said(&unread);
        let noted = match said.iter().any(|said| is_personal(&said.message.text)) {
            true => self.noted(claim, &said).await?,
            // Nobody speaks of themselves: there is nothing to ask.
            false => Some(Vec::new()),
        };
        // What was noted before stays where nobody could read it again: it was said all the same.
        let understood = noted
            .map_or_else(Vec::new, |noted| unread.turns.iter().map(|due| self.noted_of(due, &said, &noted)).collect());
        let to = unread.turns.last().map_or(unread.from, |due| due.turn.number);
        Ok(Effect::Learn(Box::new(Noted { from: unread.from, to, understood, more: unread.more })))
    }

    /// What a memory model notes; `None` where it cannot, which is no word about what was said.
    async fn noted(&self, claim: &Claim, said: &[Said<'_>]) -> Result<Option<Vec<NotedFact>>, DigestError> {
        let utterance = |said: &Said<'_>| Utterance { text: said.message.text.clone(), at: said.message.created_at };
        let Some(asked) = self.parts.summariser.note_facts(said.iter().map(utterance).collect()) else {
            return Ok(None);
        };
        self.propose(Asking { claim, topic: None }, asked).await
    }

    /// What of it was stated in a turn.
    fn noted_of(&self, due: &DueFacts, said: &[Said<'_>], noted: &[NotedFact]) -> Understood {
        let mut all = Weighed::default();
        let of_turn = said.iter().enumerate().filter(|(_, said)| said.due.turn.id == due.turn.id);
        for (n, Said { id, message, .. }) in of_turn {
            let proposals = noted.iter().filter(|noted| noted.message == n).filter_map(proposal).collect();
            let echoes: Vec<&str> = due.before.iter().map(String::as_str).collect();
            let heard = self.heard(message, &echoes);
            self.weighed(&mut all, &heard, proposals, &self.said_in(due, *id, message), Maker::Model);
        }
        Understood {
            scope: due.scope.clone(),
            turn: due.turn.id,
            stamp: due.stamp,
            maker: Maker::Model,
            statements: all.statements,
            forgets: Vec::new(),
            refused: all.refused.into_iter().collect(),
        }
    }
}

fn said(unread: &Unread) -> Vec<Said<'_>> {
    unread.turns.iter().flat_map(said_in).collect()
}

fn said_in(due: &DueFacts) -> impl Iterator<Item = Said<'_>> {
    let own = due.turn.identified().filter(|(_, message)| is_users_own(message, &due.scope));
    own.map(move |(id, message)| Said { due, id, message })
}

fn last_said(unread: &Unread) -> Timestamp {
    unread.turns.iter().map(|due| due.turn.created_at).max().unwrap_or(Timestamp::UNIX_EPOCH)
}

fn bytes(unread: &Unread) -> u64 {
    unread.turns.iter().map(|due| due.turn.question().text.len() as u64).sum()
}

/// Whether somebody speaks of themselves.
fn is_personal(text: &str) -> bool {
    let tongue = tongue(text, Tongue::English);
    words(text).any(|word| is_first_person(&word, tongue))
}

/// What a model noted, as a proposal: under the name by which such facts are known, and not too sure.
fn proposal(noted: &NotedFact) -> Option<Proposal> {
    let category = Category::parse(&noted.category)?;
    let act = match noted.act.as_str() {
        "correct" => Act::Correct,
        "end" => Act::End,
        _ => Act::State,
    };
    let key = canonical(Some(category), &noted.key, &noted.value);
    Some(Proposal {
        importance: importance(&key),
        key,
        value: noted.value.clone(),
        act,
        confidence: noted.confidence.min(CONFIDENCE_MAX),
        from: None,
        until: None,
        quote: noted.quote.clone(),
        forgets: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_asked_only_where_somebody_speaks_of_themselves() {
        assert!(is_personal("I have a dog") && is_personal("Mijn hond heet Rex") && is_personal("Ich wohne in Köln"));
        assert!(!is_personal("How do tides work?") && !is_personal("Explain TCP"));
    }

    #[test]
    fn what_is_noted_goes_by_its_known_name_and_is_not_too_sure() {
        let noted = NotedFact {
            message: 0,
            category: "identity".into(),
            key: "Home City".into(),
            value: "Porto".into(),
            act: "correct".into(),
            quote: "I moved to Porto".into(),
            confidence: 1.0,
        };
        let proposed = proposal(&noted).expect("a proposal");
        assert_eq!(
            (proposed.act, proposed.confidence, proposed.value.as_str()),
            (Act::Correct, CONFIDENCE_MAX, "Porto")
        );
        assert_eq!(proposal(&NotedFact { category: "rumour".into(), ..noted }), None);
    }
}
