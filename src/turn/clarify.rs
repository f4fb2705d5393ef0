//! Clarifications around a turn: what a message answers, and what a reply asks.
//!
//! A message that answers an open clarification goes to the model with what was chosen, and is searched for as a whole
//! question. One that does not is a question like any other, and the clarification waits on: people ask back before they
//! choose. It goes when it is answered, when the reply asks something else, or when its time is over.

use std::sync::Arc;

use serde_json::{Value, json};

use super::remind::Reminded;
use crate::clarify::{Chosen, Clarification, Heard, chosen, hear, resolve};
use crate::id::{SessionId, TurnId};
use crate::memory::{HeldClarification, Memory};
use crate::recall::{Aside, Ask, Recalled};
use crate::scope::Scope;

/// What the line about a choice is called where lines are listed with their sources.
const SOURCE: &str = "clarification";

/// A clarification, and what a message chose.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    held: Arc<HeldClarification>,
    pub(super) chosen: Chosen,
}

impl Answered {
    /// What a message chooses; `None` when it is no answer.
    pub(super) fn by(held: Arc<HeldClarification>, message: &str) -> Option<Self> {
        let resolution = resolve(&held.clarification, message)?;
        let chosen = chosen(&held.clarification, &resolution);
        Some(Self { held, chosen })
    }
}

/// What was chosen, for traces and metadata.
pub(super) fn noted(chosen: &Chosen) -> Value {
    let options: Vec<&str> = chosen.options.iter().map(|option| option.label.as_str()).collect();
    json!({"question": chosen.question, "options": options, "by": chosen.by.as_str()})
}

impl Memory {
    /// Recalls what was said about a question; one that answers a clarification is asked as a whole, and what was
    /// chosen is laid before the model, whatever becomes of recall.
    pub(super) async fn remind_of_choice(&self, scope: &Scope, mut ask: Ask, chosen: Option<&Chosen>) -> Reminded {
        let Some(chosen) = chosen else { return self.remind(scope, ask).await };
        let (told, tokens_max) = (Aside::clarification(SOURCE, &chosen.told), ask.tokens_max);
        ask.asides.push(told.clone());
        ask.question = chosen.standalone.clone().unwrap_or(ask.question);
        let mut reminded = self.remind(scope, ask).await;
        if reminded.recalled.profile.is_none() {
            reminded.recalled = Recalled::alone(told, tokens_max);
        }
        reminded.clarification = Some(chosen.clone());
        reminded
    }

    /// Keeps what a whole reply asks, and lets go of what it settles. A store that fails changes nothing about this.
    pub(super) fn settle(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
        heard: Heard,
        answered: Option<&Answered>,
    ) {
        let desk = &self.clarifications;
        if let Some(answered) = answered.filter(|_| heard != Heard::Again) {
            desk.answer(scope, session, turn, &answered.held);
        }
        let asked_here = || desk.open(scope, session).is_some_and(|open| open.asked_in == Some(turn));
        match heard {
            Heard::Choice { question, options } => {
                let now = self.parts.clock.now();
                if let Ok(clarification) = Clarification::new(&question, options, now) {
                    desk.hold(scope, session, clarification, Some(turn));
                }
            }
            Heard::Else => drop(desk.drop_open(scope, session)),
            // Another answer of the same turn takes the place of the one that asked.
            Heard::Nothing if asked_here() => drop(desk.drop_open(scope, session)),
            Heard::Again | Heard::Nothing => {}
        }
    }

    /// What a reply asks at its end, if clarifications are held at all.
    pub(super) fn hear(&self, reply: &str) -> Heard {
        if self.settings.clarifications.ttl.is_zero() { Heard::Nothing } else { hear(reply) }
    }
}
