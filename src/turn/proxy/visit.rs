//! What is laid before the model in a visitor's session: what was said in it, and what its tenant knows.
//!
//! The session's own turns are all there is of it, as messages; what lies before them is told in brief. Both are read at
//! the same time as what the tenant knows, which takes the room that they leave.

use std::time::Instant;

use tokio::time::timeout;
use tracing::warn;

use super::ProxyRequest;
use super::keep::Book;
use super::prompt::{self, Laid};
use super::run::Run;
use crate::clarify::Chosen;
use crate::id::{SessionId, TurnId};
use crate::language::{Tongue, tongue, when};
use crate::live::Summary;
use crate::memory::words;
use crate::recall::{Aside, Recalled};
use crate::session::{Asked, LateResults, Saying, SessionSeed, Shift, Turn, read_intent, with_results};
use crate::store::live::{LiveError, Seen};
use crate::turn::{Health, Reminded};

impl Run {
    /// The visitor's session, as it was when the request came.
    fn seen(&self) -> Option<&Seen> {
        match &self.book {
            Book::Live(_, seen) => seen.as_ref(),
            Book::Durable => None,
        }
    }

    /// What was said in the visitor's session.
    pub(super) fn said_in_visit(&self, session: SessionId) -> Vec<Turn> {
        let all = self.seen().into_iter().flat_map(|seen| seen.session.turns(session));
        all.filter(|turn| turn.enters_context() && !turn.superseded).collect()
    }

    /// Lets a visitor in who is about to say something. Nothing has been asked yet when this fails.
    pub(super) async fn let_in(&mut self, asked: &Asked, import: usize, seed: SessionSeed) -> Result<(), LiveError> {
        let Book::Live(key, seen) = &mut self.book else { return Ok(()) };
        let imported: usize = asked.exchanges.iter().skip(import).map(|exchange| words(&exchange.messages)).sum();
        let let_in = self.memory.let_in(key, seed, words(&asked.open) + imported).await;
        if matches!(let_in, Err(LiveError::TooManySessions { .. } | LiveError::Full { .. })) {
            self.memory.meters().live_refused.one();
        }
        let now = let_in?;
        let intent = read_intent(&Saying {
            text: &asked.open[0].text,
            tongue: Tongue::English,
            has_history: now.session.turn_count() > 0,
            answers: None,
        });
        self.memory.live().asked(&now, intent.name);
        *seen = Some(now);
        Ok(())
    }

    /// What the model lacks in a visitor's session.
    pub(super) async fn lay_out_visit(
        &self,
        request: &ProxyRequest,
        asked: &Asked,
        (shift, again, late): (&Shift, Option<TurnId>, &[LateResults]),
        chosen: Option<&Chosen>,
    ) -> (Laid, Reminded) {
        let (session, question) = (request.session.unwrap_or(request.new_session), asked.open[0].text.as_str());
        let stays = |turn: &Turn| !shift.hide.contains(&turn.number) && Some(turn.id) != again;
        let turns = with_results(self.said_in_visit(session).into_iter().filter(stays), late);
        let lacking = prompt::lacking(asked, &turns, &self.memory.settings, usize::MAX);
        let started = Instant::now();
        let (known, own) =
            tokio::join!(self.tenant_knows(question), async { self.own_lines(session, question, chosen) });
        let settings = &self.memory.settings;
        let room = lacking.recall_tokens_max;
        let mut recalled = Recalled::of_visit(own, known, room, &settings.zone, session);
        let mut laid = prompt::lay_out(asked, lacking, &mut recalled);
        let noted = self.seen().map_or_else(|| request.seed.metadata.clone(), |seen| seen.session.metadata());
        laid.system = self.memory.told_first(&noted).map(str::to_owned);
        let (took, clarification) = (started.elapsed(), chosen.cloned());
        (laid, Reminded { recalled, health: Health::Ok, took, topic: None, clarification })
    }

    /// What the tenant knows about a question, within the time that a request has for it.
    async fn tenant_knows(&self, question: &str) -> Vec<Aside> {
        let (tenant, patience) = (self.scope.shared(), self.memory.settings.recall.patience);
        match timeout(patience, self.memory.recall.told_to_visitors(&tenant, question)).await {
            Ok(Ok(told)) => told,
            // Late or failing knowledge costs itself, never the answer.
            Ok(Err(error)) => {
                warn!(tenant.id = %tenant.tenant(), error = %error, "What the tenant knows could not be read");
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }

    /// Counts what a visitor who was let in asks about.
    pub(super) fn count_topics(&self, recalled: &Recalled) {
        let Some(seen) = self.seen() else { return };
        let titles = recalled.citations().into_iter().map(|citation| citation.title).collect();
        self.memory.live().was_about(seen, &titles);
    }

    /// What the session tells of itself, what matters most first: what was chosen, the time that is asked about, what was
    /// said last.
    fn own_lines(&self, session: SessionId, question: &str, chosen: Option<&Chosen>) -> Vec<Aside> {
        let now = self.memory.live().now().wall;
        let range = when::range(question, tongue(question, Tongue::English), now, &self.memory.settings.zone);
        let asked_about =
            |told: &Summary| range.as_ref().is_some_and(|range| range.contains(told.from) || range.contains(told.to));
        let mut told: Vec<&Summary> = self.seen().into_iter().flat_map(|seen| seen.session.summaries()).collect();
        told.reverse();
        told.sort_by_key(|told| !asked_about(told));
        let chosen = chosen.map(|chosen| Aside::clarification("clarification", &chosen.told));
        chosen.into_iter().chain(told.into_iter().map(|told| Aside::told_in_visit(told, session))).collect()
    }
}
